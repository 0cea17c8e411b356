/** Proves the informer's promise one sentence at a time, on streams that are fed by hand. */
import { describe, expect, it } from 'vitest';
import type { WatchKind } from '../api/kinds.ts';
import { FakeStream, fakeNetwork, problem, turn, type Seen } from './fake.fixture.ts';
import { createInformer, type InformerOptions } from './informer.ts';
import { device, deviceId, group, groupId, organization } from './records.fixture.ts';

type Answer = (request: Seen, stream: FakeStream) => Response;

/** A running informer, the streams it opened and what it told. `answers` overrule the stream that a request would get. */
function informed<K extends WatchKind>(
  kinds: readonly K[],
  { answers = [], ...options }: Partial<InformerOptions<K>> & { readonly answers?: (Answer | undefined)[] } = {},
) {
  const streams: FakeStream[] = [];
  const network = fakeNetwork((request) => {
    const stream = new FakeStream(request.signal);
    streams.push(stream);
    const answer = answers[streams.length - 1];
    return answer === undefined ? stream.response : answer(request, stream);
  });
  const informer = createInformer({ client: network.client, organization, kinds, ...options });
  const told: string[] = [];
  const phases: string[] = [];
  informer.onChange((changes) => {
    for (const change of changes) {
      const name = (id: string): string => `${id.startsWith('d') ? 'device' : 'group'} ${Number(id.slice(-12))}`;
      const from = change.type === 'added' ? '' : `${change.old.revision}>`;
      const to = change.type === 'deleted' ? (change.revision ?? 'missing') : change.new.revision;
      told.push(`${change.type} ${name(change.id)} ${from}${to}`);
    }
  });
  informer.onState(({ phase }) => {
    if (phases.at(-1) !== phase) phases.push(phase);
  });
  const abort = new AbortController();
  const ended = informer.run({ signal: abort.signal }).then(
    () => 'stopped',
    (error: unknown) => error,
  );
  const stream = (index = streams.length - 1): FakeStream => {
    const found = streams[index];
    if (found === undefined) throw new Error(`stream ${index} was not opened`);
    return found;
  };
  const asked = (): unknown => network.seen.at(-1)?.body;
  return { ...network, informer, told, phases, streams, stream, asked, abort, ended };
}

const change = (value: object, kind?: WatchKind) => ({ type: 'change', ...(kind && { kind }), value });
const gone = (value: object, kind?: WatchKind) => ({ type: 'delete', ...(kind && { kind }), value });
const tail = (kind?: WatchKind) => ({ type: 'tail', ...(kind && { kind }) });

describe('an informer', () => {
  it('fills its copy, tells when it is synced, and then tells what is added, updated and deleted', async () => {
    const { informer, told, stream, asked, phases, abort, ended } = informed(['device']);
    const synced = informer.whenSynced();
    await turn();
    expect(asked()).toEqual([{ kind: 'device' }]);
    stream().send(change(device(1, 1)), change(device(2, 3)));
    await turn();
    expect(informer.synced).toBe(false);
    expect(informer.state.phase).toBe('listing');
    stream().send(tail());
    await synced;
    expect([...informer.view('device')].map(({ revision }) => revision)).toEqual([1, 3]);
    stream().send(change(device(3, 4)), change(device(1, 5)), gone(device(2, 6)));
    await turn();
    expect(told).toEqual([
      'added device 1 1',
      'added device 2 3',
      'added device 3 4',
      'updated device 1 1>5',
      'deleted device 2 3>6',
    ]);
    expect(informer.view('device').get(deviceId(1))?.revision).toBe(5);
    expect(informer.view('device').get(deviceId(2))).toBeUndefined();
    expect(informer.view('device').size).toBe(2);
    expect(informer.revision).toBe(6);
    abort.abort();
    expect(await ended).toBe('stopped');
    expect(phases).toEqual(['connecting', 'listing', 'live', 'stopped']);
    expect(stream().closed).toBe(true);
  });

  it('has told all changes of the listing before it says that it is synced', async () => {
    const { informer, stream } = informed(['device']);
    const seen: boolean[] = [];
    informer.onChange(() => seen.push(informer.synced));
    await turn();
    stream().send(change(device(1, 1)), tail());
    await informer.whenSynced();
    expect(seen).toEqual([false]);
  });

  it('tells the changes that arrived together at once, when the copy holds all of them', async () => {
    const { informer, stream } = informed(['device']);
    const batches: number[][] = [];
    informer.onChange((changes) => batches.push([changes.length, informer.view('device').size]));
    await turn();
    stream().send(...[1, 2, 3].map((n) => change(device(n, n))), tail());
    await turn();
    expect(batches).toEqual([[3, 3]]);
  });

  it('resumes a lost stream after the last revision seen', async () => {
    const { told, stream, streams, asked, clock, phases, informer } = informed(['device']);
    await turn();
    stream().send(change(device(1, 1)), tail(), change(device(2, 7)));
    await turn();
    stream().cut();
    await turn();
    expect(informer.state).toMatchObject({ phase: 'waiting', failures: 1, retryAt: clock.now() + 500 });
    expect(informer.state.lastError?.error.code).toBe('cut_off');
    await clock.advance(500);
    expect(streams).toHaveLength(2);
    expect(asked()).toEqual([{ kind: 'device', gt_revision: 7 }]);
    stream().send(gone(device(1, 8)), tail());
    await turn();
    expect(told.at(-1)).toBe('deleted device 1 1>8');
    expect(phases).toEqual(['connecting', 'listing', 'live', 'waiting', 'connecting', 'listing', 'live']);
    expect(informer.state.failures).toBe(0);
  });

  it('goes on in the middle of a listing that was cut, and is synced only after its tail', async () => {
    const { informer, told, stream, asked, clock } = informed(['device']);
    await turn();
    stream().send(change(device(1, 1)), change(device(2, 2)));
    await turn();
    stream().cut();
    await clock.advance(1_000);
    expect(asked()).toEqual([{ kind: 'device', gt_revision: 2 }]);
    stream().send(gone(device(1, 5)), change(device(3, 6)));
    await turn();
    expect(informer.synced).toBe(false);
    stream().send(tail());
    await turn();
    expect(informer.synced).toBe(true);
    expect(told).toEqual(['added device 1 1', 'added device 2 2', 'deleted device 1 1>5', 'added device 3 6']);
  });

  it('stays synced and keeps its copy while the server is away', async () => {
    const { informer, stream, clock } = informed(['device'], {
      answers: [undefined, ...Array.from({ length: 50 }, () => () => problem(503, {}))],
    });
    await turn();
    stream().send(change(device(1, 1)), tail());
    await turn();
    stream().cut();
    await clock.advance(120_000);
    expect(informer.synced).toBe(true);
    expect(informer.view('device').size).toBe(1);
    expect(informer.state.lastError?.error.code).toBe('unavailable');
  });

  it('tells nothing twice when a resumed stream repeats what is known', async () => {
    const { told, stream, clock } = informed(['device']);
    await turn();
    stream().send(change(device(1, 1)), tail(), change(device(1, 4)));
    await turn();
    stream().cut();
    await clock.advance(1_000);
    stream().send(change(device(1, 4)), change(device(1, 3)), gone(device(9, 4)), tail());
    await turn();
    expect(told).toEqual(['added device 1 1', 'updated device 1 1>4']);
  });

  it('tells a group that left the view as deleted, and as added when it returns', async () => {
    const { told, stream } = informed(['security-groups']);
    await turn();
    stream().send(change(group(1, 1)), tail());
    stream().send(gone({ id: groupId(1), org_id: organization, revision: 4 }), change(group(1, 6)));
    await turn();
    expect(told).toEqual(['added group 1 1', 'deleted group 1 1>4', 'added group 1 6']);
  });
});

describe('several kinds on one stream', () => {
  const both = ['device', 'security-groups'] as const;

  it('are asked for in one request and are synced when the last tail has come', async () => {
    const { informer, stream, seen, asked } = informed(both);
    await turn();
    expect(asked()).toEqual([{ kind: 'device' }, { kind: 'security-groups' }]);
    stream().send(change(device(1, 9), 'device'), tail('device'));
    await turn();
    expect(informer.synced).toBe(false);
    stream().send(change(group(1, 2), 'security-groups'), tail('security-groups'));
    await turn();
    expect(informer.synced).toBe(true);
    expect(seen).toHaveLength(1);
    expect(informer.view('security-groups').get(groupId(1))?.group_name).toBe('group-1');
  });

  it('go on each at its own revision when the stream was cut before the last tail', async () => {
    const { stream, asked, clock } = informed(both);
    await turn();
    stream().send(change(device(1, 90), 'device'), tail('device'), change(group(1, 2), 'security-groups'));
    await turn();
    stream().cut();
    await clock.advance(1_000);
    expect(asked()).toEqual([
      { kind: 'device', gt_revision: 90 },
      { kind: 'security-groups', gt_revision: 2 },
    ]);
  });

  it('of which one has shown nothing yet: that one starts at the beginning', async () => {
    const { stream, asked, clock } = informed(both);
    await turn();
    stream().send(change(device(1, 90), 'device'), tail('device'));
    await turn();
    stream().cut();
    await clock.advance(1_000);
    expect(asked()).toEqual([{ kind: 'device', gt_revision: 90 }, { kind: 'security-groups' }]);
  });

  it('share the last revision seen after the last tail, but not a revision that was seen before it', async () => {
    const { stream, asked, clock } = informed(both);
    await turn();
    stream().send(change(device(1, 5), 'device'), tail('device'));
    stream().send(change(group(1, 50), 'security-groups'), tail('security-groups'));
    await turn();
    stream().cut();
    await clock.advance(1_000);
    // A device's change with a revision between 5 and 50 may be on its way still.
    expect(asked()).toEqual([
      { kind: 'device', gt_revision: 5 },
      { kind: 'security-groups', gt_revision: 50 },
    ]);
    stream().send(tail('device'), tail('security-groups'), change(device(2, 51), 'device'));
    await turn();
    stream().cut();
    await clock.advance(1_000);
    expect(asked()).toEqual([
      { kind: 'device', gt_revision: 51 },
      { kind: 'security-groups', gt_revision: 51 },
    ]);
  });

  it('do not share a revision again on a resumed stream until its tails have come', async () => {
    const { stream, asked, clock } = informed(both);
    await turn();
    stream().send(tail('device'), tail('security-groups'), change(device(1, 10), 'device'));
    await turn();
    stream().cut();
    await clock.advance(1_000);
    stream().send(change(device(1, 15), 'device'), tail('device'));
    await turn();
    stream().cut();
    await clock.advance(1_000);
    expect(asked()).toEqual([
      { kind: 'device', gt_revision: 15 },
      { kind: 'security-groups', gt_revision: 10 },
    ]);
  });
});

describe('a revision that is gone', () => {
  const refusal = () => problem(410, { code: 'revision_gone' });

  it('makes the informer list afresh at once and tell what vanished, without a moment of an empty copy', async () => {
    const { informer, told, stream, asked, clock, streams } = informed(['device'], { answers: [undefined, refusal] });
    await turn();
    stream().send(...[1, 2, 3].map((n) => change(device(n, n))), tail());
    await turn();
    stream().cut();
    await clock.advance(500);
    expect(streams).toHaveLength(3);
    expect(asked()).toEqual([{ kind: 'device' }]);
    expect(informer.synced).toBe(true);
    told.length = 0;
    stream().send(change(device(2, 2)), change(device(3, 8)), change(device(4, 9)));
    await turn();
    expect(told).toEqual(['updated device 3 3>8', 'added device 4 9']);
    expect(informer.view('device').size).toBe(4);
    stream().send(tail());
    await turn();
    expect(told.slice(2)).toEqual(['deleted device 1 1>missing']);
    expect(informer.view('device').size).toBe(3);
  });

  it('and a cut in the middle of the new listing: what vanished is told once the listing is whole', async () => {
    const { told, stream, asked, clock } = informed(['device'], { answers: [undefined, refusal] });
    await turn();
    stream().send(...[1, 2, 3].map((n) => change(device(n, n))), tail());
    await turn();
    stream().cut();
    await clock.advance(500);
    stream().send(change(device(2, 20)));
    await turn();
    stream().cut();
    await clock.advance(1_000);
    expect(asked()).toEqual([{ kind: 'device', gt_revision: 20 }]);
    told.length = 0;
    stream().send(change(device(3, 21)), tail());
    await turn();
    expect(told).toEqual(['updated device 3 3>21', 'deleted device 1 1>missing']);
  });

  it('because the server was restored from a backup: revisions go back and the copy follows', async () => {
    const { informer, told, stream, clock } = informed(['device'], { answers: [undefined, refusal] });
    await turn();
    stream().send(change(device(1, 80)), change(device(2, 100, { hostname: 'new' })), tail());
    await turn();
    stream().cut();
    await clock.advance(500);
    told.length = 0;
    stream().send(change(device(1, 70)), change(device(2, 100, { hostname: 'other' })), tail());
    await turn();
    expect(told).toEqual(['updated device 1 80>70', 'updated device 2 100>100']);
    expect(informer.view('device').get(deviceId(2))?.hostname).toBe('other');
    expect(informer.revision).toBe(100);
  });

  it('again and again does not make a hot loop', async () => {
    const { streams, clock } = informed(['device'], { answers: Array.from({ length: 99 }, () => refusal) });
    await clock.advance(60_000);
    expect(streams.length).toBeGreaterThan(3);
    expect(streams.length).toBeLessThan(12);
  });
});

describe('the patience of an informer', () => {
  it('grows with every failure up to its bound and starts small again after progress', async () => {
    const waits: number[] = [];
    const failing = (): Response => problem(503, {});
    const { informer, clock, stream } = informed(['device'], {
      answers: [...Array.from({ length: 8 }, () => failing), undefined],
    });
    informer.onState(({ phase, retryAt }) => {
      if (phase === 'waiting') waits.push((retryAt ?? 0) - clock.now());
    });
    await clock.advance(70_000);
    expect(waits).toEqual([500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000, 15_000]);
    stream().send(change(device(1, 1)), tail());
    await turn();
    stream().cut();
    await turn();
    expect(waits.at(-1)).toBe(500);
  });

  it('is random over the whole wait, so that a fleet does not return as one', async () => {
    const waits: number[] = [];
    for (const random of [0, 0.25, 0.999]) {
      const { client, clock } = fakeNetwork(() => problem(503, {}), { random: () => random });
      const informer = createInformer({ client, organization, kinds: ['device'] });
      informer.onState(({ phase, retryAt }) => {
        if (phase === 'waiting') waits.push((retryAt ?? 0) - clock.now());
      });
      const abort = new AbortController();
      const run = informer.run({ signal: abort.signal });
      await turn(3);
      abort.abort();
      await run;
    }
    expect(waits).toHaveLength(3);
    expect(waits).toEqual([0, 250, 999]);
  });

  it('obeys Retry-After', async () => {
    const { streams, clock } = informed(['device'], { answers: [() => problem(429, {}, { 'retry-after': '20' })] });
    await clock.advance(20_000);
    expect(streams).toHaveLength(1);
    await clock.advance(1_000);
    expect(streams).toHaveLength(2);
  });

  it('is not needed when the server ends a stream in good order after a while: it resumes at once', async () => {
    const { stream, streams, clock, asked, informer } = informed(['device']);
    await turn();
    stream().send(change(device(1, 1)), tail());
    for (let index = 0; index < 5; index += 1) {
      await clock.advance(15_000);
      stream().push('\n');
    }
    stream().end();
    await turn(3);
    expect(streams).toHaveLength(2);
    expect(asked()).toEqual([{ kind: 'device', gt_revision: 1 }]);
    expect(informer.state.lastError).toBeUndefined();
  });

  it('returns when the server ends every stream right after its tail: no hot loop', async () => {
    const { streams, clock, stream } = informed(['device']);
    for (let index = 0; index < 200; index += 1) {
      await clock.advance(500);
      if (!stream().closed) {
        stream().send(tail());
        stream().end();
      }
    }
    expect(streams.length).toBeGreaterThan(4);
    expect(streams.length).toBeLessThan(16);
  });

  it('ends at a stream that has gone silent: it is given up and resumed', async () => {
    const { stream, streams, clock, informer } = informed(['device'], { silence: 10_000 });
    await turn();
    stream().send(change(device(1, 1)), tail());
    await clock.advance(10_000);
    expect(informer.state.lastError?.error.code).toBe('silent');
    expect(stream(0).closed).toBe(true);
    await clock.advance(500);
    expect(streams).toHaveLength(2);
  });

  it('is not started small again by a stream that talks nonsense', async () => {
    const { streams, clock, stream } = informed(['device']);
    let revision = 0;
    for (let index = 0; index < 200; index += 1) {
      await clock.advance(500);
      if (!stream().closed) {
        revision += 1;
        stream().send(change(device(revision, revision)));
        stream().push('nonsense\n');
      }
    }
    expect(streams.length).toBeLessThan(16);
  });

  it('can be cut short: retryNow', async () => {
    const { informer, streams } = informed(['device'], { answers: [() => problem(503, {})] });
    await turn(3);
    expect(informer.state.phase).toBe('waiting');
    informer.retryNow();
    await turn(3);
    expect(streams).toHaveLength(2);
  });
});

describe('the end of an informer', () => {
  it.each([
    [401, 'unauthenticated'],
    [403, 'forbidden'],
    [404, 'not_found'],
    [422, 'invalid'],
  ])('comes with a refusal that waiting cannot heal: %i', async (status, code) => {
    const { informer, ended } = informed(['device'], { answers: [() => problem(status, {})] });
    await expect(informer.whenSynced()).rejects.toMatchObject({ code });
    expect(await ended).toMatchObject({ code });
    expect(informer.state.phase).toBe('stopped');
  });

  it('does not come where the caller says that such a refusal may heal', async () => {
    const { streams, clock } = informed(['device'], { answers: [() => problem(404, {})], giveUp: () => false });
    await clock.advance(1_000);
    expect(streams).toHaveLength(2);
  });

  it('leaves no timer and no connection behind, in whatever phase it comes', async () => {
    for (const upTo of ['connecting', 'listing', 'live', 'waiting']) {
      const { informer, stream, abort, ended, clock } = informed(['device']);
      await turn();
      if (upTo !== 'connecting') stream().send(change(device(1, 1)));
      await turn();
      if (upTo === 'live' || upTo === 'waiting') stream().send(tail());
      await turn();
      if (upTo === 'waiting') stream().cut();
      await turn(3);
      expect(informer.state.phase).toBe(upTo);
      abort.abort();
      expect(await ended).toBe('stopped');
      expect(clock.timers).toBe(0);
      expect(stream().closed).toBe(true);
    }
  });

  it('rejects those who still wait for it to be synced', async () => {
    const reason = new Error('shutting down');
    const { informer, abort } = informed(['device']);
    const waiting = informer.whenSynced();
    await turn();
    abort.abort(reason);
    await expect(waiting).rejects.toBe(reason);
  });

  it('is no farewell: run again, it goes on where it stopped', async () => {
    const { informer, stream, abort, ended, asked, streams } = informed(['device']);
    await turn();
    stream().send(change(device(1, 4)), tail());
    await turn();
    abort.abort();
    await ended;
    const second = new AbortController();
    const run = informer.run({ signal: second.signal });
    await expect(informer.run({ signal: second.signal })).rejects.toThrow('running already');
    await turn();
    expect(streams).toHaveLength(2);
    expect(asked()).toEqual([{ kind: 'device', gt_revision: 4 }]);
    second.abort();
    await run;
  });

  it('is not brought about by a handler that throws: the others are told, and the fault is too', async () => {
    const faults: unknown[] = [];
    const { informer, told, stream } = informed(['device'], { onFault: (fault) => faults.push(fault) });
    const fault = new Error('handler');
    const forget = informer.onChange(() => {
      throw fault;
    });
    const later: number[] = [];
    informer.onChange((changes) => later.push(changes.length));
    await turn();
    stream().send(change(device(1, 1)), tail());
    await turn();
    forget();
    stream().send(change(device(1, 2)));
    await turn();
    expect(faults).toEqual([fault]);
    expect(later).toEqual([1, 1]);
    expect(told).toHaveLength(2);
  });
});
