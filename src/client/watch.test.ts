/** Proves what one watch stream does with bytes, refusals, silence and nonsense. */
import { describe, expect, it } from 'vitest';
import { RingfenceError } from './error.ts';
import { FakeStream, fakeNetwork, json, problem, turn } from './fake.fixture.ts';
import type { Client } from './http.ts';
import { device, group, organization } from './records.fixture.ts';
import { watch, type WatchOptions } from './watch.ts';
import type { WatchItem } from '../api/watch.ts';

/** Reads a stream in the background: what it gave, and how it ended. */
function reading(client: Client, items: readonly WatchItem[] = [{ kind: 'device' }], options: WatchOptions = {}) {
  const got: unknown[] = [];
  const ended = (async (): Promise<unknown> => {
    try {
      for await (const event of watch(client, organization, items, options)) got.push(event);
      return 'ended';
    } catch (error) {
      return error;
    }
  })();
  return { got, ended };
}

/** A client whose streams are fed by hand. */
function streaming() {
  const streams: FakeStream[] = [];
  const network = fakeNetwork(({ signal }) => {
    const stream = new FakeStream(signal);
    streams.push(stream);
    return stream.response;
  });
  const stream = (index = 0): FakeStream => {
    const found = streams[index];
    if (found === undefined) throw new Error(`stream ${index} was not opened`);
    return found;
  };
  return { ...network, streams, stream };
}

const codeOf = (error: unknown): unknown => (error instanceof RingfenceError ? error.code : error);

describe('a watch stream', () => {
  it('asks for the items as given and yields documents with their kind, id and revision', async () => {
    const { client, seen, stream } = streaming();
    const { got, ended } = reading(client, [{ kind: 'device', gt_revision: 4, at_tail: true }]);
    await turn();
    stream().send({ type: 'change', value: device(1, 5) }, { type: 'delete', value: device(2, 6) }, { type: 'tail' });
    stream().end();
    expect(await ended).toBe('ended');
    expect(got).toMatchObject([
      { type: 'change', kind: 'device', id: device(1, 5).id, revision: 5, value: device(1, 5) },
      { type: 'delete', kind: 'device', id: device(2, 6).id, revision: 6 },
      { type: 'tail', kind: 'device' },
    ]);
    expect(seen[0]).toMatchObject({
      method: 'POST',
      url: `http://server.test/api/organizations/${organization}/events`,
      headers: { authorization: 'Bearer rf_user_secret', 'content-type': 'application/json' },
      body: [{ kind: 'device', gt_revision: 4, at_tail: true }],
    });
  });

  it('puts documents together again wherever the network cuts them, inside a character too', async () => {
    const value = device(1, 5, { hostname: 'höst-🦔-終' });
    const whole = new TextEncoder().encode(
      `\n${JSON.stringify({ type: 'change', value })}\n\n\n{"type":"tail"}\r\n\r\n${JSON.stringify({ type: 'delete', value: { ...value, revision: 6 } })}\n`,
    );
    for (let size = 1; size <= 9; size += 1) {
      const { client, stream } = streaming();
      const { got, ended } = reading(client);
      await turn();
      for (let at = 0; at < whole.length; at += size) stream().push(whole.slice(at, at + size));
      stream().end();
      expect(await ended).toBe('ended');
      expect(got).toMatchObject([{ type: 'change', value }, { type: 'tail' }, { type: 'delete', revision: 6 }]);
    }
  });

  it('reads several kinds apart by the kind that each document carries', async () => {
    const { client, stream } = streaming();
    const { got, ended } = reading(client, [{ kind: 'device' }, { kind: 'security-groups' }]);
    await turn();
    stream().send(
      { type: 'tail', kind: 'device' },
      { type: 'change', kind: 'security-groups', value: group(1, 2) },
      { type: 'delete', kind: 'security-groups', value: { id: group(1, 2).id, org_id: organization, revision: 3 } },
    );
    stream().end();
    expect(await ended).toBe('ended');
    expect(got).toMatchObject([
      { type: 'tail', kind: 'device' },
      { type: 'change', kind: 'security-groups', revision: 2 },
      { type: 'delete', kind: 'security-groups', revision: 3 },
    ]);
  });

  it('gives up after 40 s without a byte, and a heartbeat starts that time anew', async () => {
    const { client, clock, stream } = streaming();
    const { ended } = reading(client);
    await clock.advance(39_000);
    stream().push('\n');
    await clock.advance(39_000);
    stream().push('\n');
    await clock.advance(39_999);
    expect(stream().closed).toBe(false);
    await clock.advance(1);
    expect(codeOf(await ended)).toBe('silent');
    expect(stream().closed).toBe(true);
    expect(clock.timers).toBe(0);
  });

  it('gives up on a server that accepts the request and never answers', async () => {
    const { client, clock } = fakeNetwork(() => new Promise<never>(() => undefined));
    const { ended } = reading(client);
    await clock.advance(40_000);
    expect(codeOf(await ended)).toBe('silent');
  });

  it('does not take a slow reader for a silent server', async () => {
    const { client, clock, stream } = streaming();
    const iterator = watch(client, organization, [{ kind: 'device' }]);
    const first = iterator.next();
    await turn();
    stream().send({ type: 'tail' });
    await first;
    await clock.advance(3_600_000);
    const second = iterator.next();
    stream().send({ type: 'change', value: device(1, 1) });
    expect(await second).toMatchObject({ value: { type: 'change' } });
    await iterator.return();
  });

  it('closes the connection when its reader leaves the loop', async () => {
    const { client, clock, stream } = streaming();
    const loop = (async () => {
      for await (const event of watch(client, organization, [{ kind: 'device' }])) return event;
      return undefined;
    })();
    await turn();
    stream().send({ type: 'tail' });
    expect(await loop).toEqual({ type: 'tail', kind: 'device' });
    expect(stream().closed).toBe(true);
    expect(clock.timers).toBe(0);
  });

  it("throws the signal's own reason when it is aborted, before, while opening and while reading", async () => {
    const reason = new Error('enough');
    const before = streaming();
    expect(await reading(before.client, undefined, { signal: AbortSignal.abort(reason) }).ended).toBe(reason);
    expect(before.seen).toEqual([]);

    const stuck = fakeNetwork(() => new Promise<never>(() => undefined));
    const opening = new AbortController();
    const first = reading(stuck.client, undefined, { signal: opening.signal });
    await turn();
    opening.abort(reason);
    expect(await first.ended).toBe(reason);

    const { client, clock, stream } = streaming();
    const abort = new AbortController();
    const second = reading(client, undefined, { signal: abort.signal });
    await turn();
    stream().send({ type: 'tail' });
    await turn();
    abort.abort(reason);
    expect(await second.ended).toBe(reason);
    expect(stream().closed).toBe(true);
    expect(clock.timers).toBe(0);
  });

  it('tells a cut from an end', async () => {
    const cut = streaming();
    const broken = reading(cut.client);
    await turn();
    cut.stream().send({ type: 'tail' });
    cut.stream().cut();
    expect(codeOf(await broken.ended)).toBe('cut_off');

    const half = streaming();
    const torn = reading(half.client);
    await turn();
    half.stream().push('{"type":"ta');
    half.stream().end();
    expect(codeOf(await torn.ended)).toBe('cut_off');
  });

  it('refuses a document that is longer than allowed, without keeping it', async () => {
    const { client, stream } = streaming();
    const { ended } = reading(client, undefined, { longestDocument: 1_000 });
    await turn();
    for (let index = 0; index < 20; index += 1) stream().push('x'.repeat(100));
    expect(codeOf(await ended)).toBe('document_too_large');
    expect(stream().closed).toBe(true);
  });

  const deepDocument = (before: string, after: string): string =>
    `${JSON.stringify({ type: 'change', value: device(1, 1) }).replace('"value":{', `"value":{"x":${before}${after},`)}\n`;
  it.each([
    ['no JSON', 'hello\n'],
    ['no object', '[1]\n'],
    ['arrays that nest deep', deepDocument('['.repeat(5_000), ']'.repeat(5_000))],
    [
      'objects that nest deep, behind strings with brackets',
      deepDocument('{"]\\\\":"\\"}","b":'.repeat(40), `1${'}'.repeat(40)}`),
    ],
    ['no UTF-8', new Uint8Array([0x22, 0xff, 0xfe, 0x22, 0x0a])],
    ['an unknown type', '{"type":"surprise"}\n'],
    ['a kind that was not asked for', '{"type":"tail","kind":"security-groups"}\n'],
    ['no value', '{"type":"change"}\n'],
    ['no id', `${JSON.stringify({ type: 'change', value: { ...device(1, 1), id: 'x' } })}\n`],
    ['no revision', `${JSON.stringify({ type: 'change', value: { ...device(1, 1), revision: '1' } })}\n`],
    [
      'a revision beyond integers',
      `${JSON.stringify({ type: 'change', value: { ...device(1, 1), revision: 1e16 } })}\n`,
    ],
    [
      'another organization',
      `${JSON.stringify({ type: 'change', value: { ...device(1, 1), organization_id: device(1, 1).id } })}\n`,
    ],
    [
      'a broken list of groups',
      `${JSON.stringify({ type: 'change', value: { ...device(1, 1), security_groups: ['web'] } })}\n`,
    ],
  ])('refuses a document with %s', async (_, bytes) => {
    const { client, stream } = streaming();
    const { got, ended } = reading(client);
    await turn();
    stream().push(bytes);
    expect(codeOf(await ended)).toBe('bad_answer');
    expect(got).toEqual([]);
  });

  it('refuses a group whose rules are no rules: an enforcer must not guess', async () => {
    for (const rules of [{}, [null], [{ ip_protocol: 'tcp', from_port: '1', to_port: 1 }]]) {
      const { client, stream } = streaming();
      const { ended } = reading(client, [{ kind: 'security-groups' }]);
      await turn();
      stream().send({ type: 'change', value: { ...group(1, 1), inbound_rules: rules } });
      expect(codeOf(await ended)).toBe('bad_answer');
    }
  });

  it('passes on fields that it does not know', async () => {
    const { client, stream } = streaming();
    const { got } = reading(client);
    await turn();
    stream().send({ type: 'change', value: { ...device(1, 1), colour: 'red', note: '[{"'.repeat(100) }, later: true });
    await turn();
    expect(got).toMatchObject([{ value: { colour: 'red' } }]);
    stream().end();
  });

  it.each([
    [410, 'revision_gone', false],
    [401, 'unauthenticated', false],
    [403, 'forbidden', false],
    [404, 'not_found', false],
    [422, 'invalid', false],
    [429, 'rate_limited', true],
    [500, 'internal', true],
    [503, 'unavailable', true],
  ])('turns a refusal with %i into the code %s', async (status, code, retryable) => {
    const { client } = fakeNetwork(() => problem(status, { code, detail: 'No.' }, { 'retry-after': '7' }));
    const error = await reading(client).ended;
    expect(error).toMatchObject({ code, status, retryable, retryAfter: 7_000, message: 'No.' });
  });

  it('refuses an answer that is no stream', async () => {
    const page = fakeNetwork(() => new Response('<html>', { headers: { 'content-type': 'text/html' } }));
    expect(codeOf(await reading(page.client).ended)).toBe('bad_answer');
    const list = fakeNetwork(() => json([device(1, 1)]));
    expect(codeOf(await reading(list.client).ended)).toBe('cut_off');
  });
});
