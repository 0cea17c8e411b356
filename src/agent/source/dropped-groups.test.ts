/** Proves that an agent holds few groups of a large organization, and never a policy that is incomplete or out of date for it. */
import { afterEach, describe, expect, test } from 'vitest';
import type { SecurityGroup } from '../../api/group.ts';
import type { WatchKind } from '../../api/kinds.ts';
import { fakeNetwork, FakeStream, json, problem, turn } from '../../client/fake.fixture.ts';
import { device, deviceId, group, groupId, organization } from '../../client/records.fixture.ts';
import { GroupSelection, sizeOf } from './group-selection.ts';
import { InformerSource } from './informer-policy-source.ts';

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

const change = (kind: WatchKind, value: object) => ({ type: 'change', kind, value });
const tail = (kind: WatchKind) => ({ type: 'tail', kind });
const everyone = group(1, 1, { is_default: true });
const wide = (number: number, revision: number, name = `group-${number}`): SecurityGroup =>
  group(number, revision, {
    group_name: name,
    inbound_rules: [{ ip_protocol: 'tcp', from_port: 22, to_port: 22, ip_ranges: ['10.0.0.1', '10.0.0.2'] }],
  });

/** A source with room for no group of others, and a server whose answers to a read the test gives. */
function follow() {
  let stream: FakeStream | undefined;
  const reads: { readonly id: string; answer: (response: Response) => void }[] = [];
  const network = fakeNetwork((request) => {
    if (request.method === 'GET') {
      return new Promise<Response>((answer) => reads.push({ id: request.url.split('/').at(-1) ?? '', answer }));
    }
    stream = new FakeStream(request.signal);
    return stream.response;
  });
  const source = new InformerSource({
    client: network.client,
    organization,
    device: deviceId(1),
    mostRanges: 0,
    onFault: (fault) => {
      throw fault;
    },
  });
  const abort = new AbortController();
  const ended = source.run({ signal: abort.signal });
  ends.push(async () => {
    abort.abort();
    await ended;
  });
  const send = async (...documents: readonly object[]): Promise<void> => {
    await turn(3);
    stream?.send(...documents);
    await turn(5);
  };
  const answer = async (response: Response): Promise<void> => {
    const read = reads.shift();
    if (read === undefined) throw new Error('nothing was asked');
    read.answer(response);
    await turn(5);
  };
  const known = (): string => {
    const knowledge = source.read();
    if (knowledge.kind === 'unknown') return `unknown: ${knowledge.why}`;
    const { policy, revision } = knowledge;
    return `${revision} ${policy.source} ${policy.groups.map(({ name }) => name).join('+')}`;
  };
  const list = (own: object, ...groups: readonly SecurityGroup[]): Promise<void> =>
    send(
      change('device', own),
      tail('device'),
      ...groups.map((each) => change('security-groups', each)),
      tail('security-groups'),
    );
  return { ...network, source, send, list, known, reads, answer };
}

const listing = (number: number, ...ids: readonly number[]) =>
  device(1, number, { security_groups: ids.map((id) => groupId(id)) });
const missing = `unknown: the group ${groupId(3)} is missing`;

describe('a group that does not concern the device', () => {
  test('is not held, and its changes are still counted into the revision', async () => {
    const { list, send, known, reads } = follow();
    await list(listing(2, 2), everyone, wide(2, 3), wide(3, 4), wide(4, 5));
    expect(known()).toBe('5 list group-2');
    await send(change('security-groups', wide(3, 6)));
    expect(known()).toBe('6 list group-2');
    expect(reads).toEqual([]);
  });

  test('is held all the same while it has a field that is not understood: it may concern any device', async () => {
    const { list, send, source, known } = follow();
    await list(listing(2, 2), everyone, wide(2, 3));
    await send(change('security-groups', { ...wide(3, 4), priority: 10 }));
    expect(source.read()).toMatchObject({ kind: 'unknown', code: 'not_understood' });
    await send(change('security-groups', wide(3, 5)));
    expect(known()).toBe('5 list group-2');
  });

  test('is fetched when the device gets it, and the policy is unknown until it is there', async () => {
    const { list, send, known, reads, answer } = follow();
    await list(listing(2, 2), everyone, wide(2, 3), wide(3, 4));
    await send(change('device', listing(5, 2, 3)));
    expect(known()).toBe(missing);
    expect(reads.map(({ id }) => id)).toEqual([groupId(3)]);
    await answer(json(wide(3, 4)));
    expect(known()).toBe('5 list group-2+group-3');
    // From now on the stream keeps it up to date.
    await send(change('security-groups', wide(3, 6, 'renamed')));
    expect(known()).toBe('6 list group-2+renamed');
    expect(reads).toEqual([]);
  });

  test('is not used before the stream has come as far as the answer', async () => {
    const { list, send, known, answer } = follow();
    await list(listing(2), everyone, wide(3, 4));
    await send(change('device', listing(5, 3)));
    await answer(json(wide(3, 8, 'from the future')));
    expect(known()).toBe(missing);
    await send(change('security-groups', wide(2, 7)));
    expect(known()).toBe(missing);
    await send(change('security-groups', wide(3, 8, 'from the future')));
    expect(known()).toBe('8 list from the future');
  });

  test('is not taken from an answer that a later change has overtaken', async () => {
    const { list, send, known, reads, answer } = follow();
    await list(listing(2), everyone, wide(3, 4));
    await send(change('device', listing(5, 3)));
    // Off the list, changed, and on the list again, all at once: the answer that is under way is of before.
    await send(
      change('device', listing(6)),
      change('security-groups', wide(3, 7, 'tightened')),
      change('device', listing(8, 3)),
    );
    await answer(json(wide(3, 4, 'stale')));
    expect(known()).toBe(missing);
    expect(reads).toHaveLength(1);
    await answer(json(wide(3, 7, 'tightened')));
    expect(known()).toBe('8 list tightened');
  });

  test('nor from what was fetched before it left the list and changed', async () => {
    const { list, send, known, answer } = follow();
    await list(listing(2), everyone, wide(3, 4));
    await send(change('device', listing(5, 3)));
    await answer(json(wide(3, 4)));
    expect(known()).toBe('5 list group-3');
    await send(
      change('device', listing(6)),
      change('security-groups', wide(3, 7, 'tightened')),
      change('device', listing(8, 3)),
    );
    expect(known()).toBe(missing);
    await answer(json(wide(3, 7, 'tightened')));
    expect(known()).toBe('8 list tightened');
  });

  test('is asked for again after growing waits while the server does not give it, not at every change', async () => {
    const { list, send, known, reads, answer, clock } = follow();
    await list(listing(2), everyone, wide(3, 4));
    await send(change('device', listing(5, 3)));
    await answer(problem(503, {}));
    for (let revision = 6; revision < 20; revision++) await send(change('security-groups', wide(9, revision)));
    expect(reads).toEqual([]);
    expect(known()).toBe(missing);
    await clock.advance(1_000);
    expect(reads).toHaveLength(1);
    await answer(json(wide(3, 4)));
    expect(known()).toBe('19 list group-3');
  });
});

describe('the selection', () => {
  test('holds others while there is room, always what concerns the device, and counts what is gone', () => {
    const selection = new GroupSelection(sizeOf(wide(2, 1)) * 2);
    const own = listing(1, 5);
    expect([2, 3, 4, 5].map((number) => selection.take(wide(number, 1), own))).toEqual([true, true, false, true]);
    expect(selection.take(everyone, own)).toBe(true);
    expect(selection.take(wide(3, 2), own)).toBe(true);
    selection.forget(groupId(2));
    expect(selection.take(wide(4, 2), own)).toBe(true);
    expect(selection.take(wide(2, 2), own)).toBe(false);
    expect(selection.take(wide(2, 2), undefined)).toBe(false);
  });
});
