/** Proves how an informer waits and retries, and how it ends, on streams that are fed by hand. */
import { describe, expect, it } from 'vitest';
import { fakeNetwork, problem, turn } from './fake.fixture.ts';
import { change, informed, tail } from './informer.fixture.ts';
import { createInformer } from './informer.ts';
import { device, organization } from './records.fixture.ts';

describe('an informer of a hostile server', () => {
  it('holds no more than it has room for, however much is sent, lists anew after a wait, and is whole again where all fits', async () => {
    // Room for three records.
    const { informer, clock, stream, streams, asked } = informed(['device'], { mostMemory: 4_000 });
    const sizes = new Set<number>();
    const present = new Map<string, number>();
    informer.onChange((changes) => {
      sizes.add(informer.view('device').size);
      for (const each of changes) {
        if (each.type === 'deleted') present.delete(each.id);
        else present.set(each.id, each.new.revision);
      }
    });
    await turn();
    stream().send(...[1, 2].map((number) => change(device(number, number))), tail());
    await turn();
    // Of the same records there may be any number of states.
    for (let revision = 3; revision < 1_000; revision += 1) stream().send(change(device(1, revision)));
    await turn(3);
    expect(present).toEqual(
      new Map([
        [device(2, 2).id, 2],
        [device(1, 1).id, 999],
      ]),
    );
    for (let attempt = 0; attempt < 5; attempt += 1) {
      const before = streams.length;
      // What was deleted in the same breath is gone too.
      stream().send({ type: 'delete', value: device(2, 1_000) });
      stream().send(...Array.from({ length: 50 }, (_, i) => change(device(10 + i, 1_001 + i))));
      await turn(3);
      expect([informer.view('device').size, present.size]).toEqual([0, 0]);
      expect(informer.state).toMatchObject({ phase: 'waiting', lastError: { error: { code: 'document_too_large' } } });
      expect(informer.state.lastError?.error.message).toContain('more than 4000 bytes');
      await clock.advance(20_000);
      expect(streams.length).toBe(before + 1);
      expect(asked()).toEqual([{ kind: 'device' }]);
    }
    stream().send(change(device(1, 2_000)), tail());
    await turn();
    expect(informer.state.phase).toBe('live');
    expect(present).toEqual(new Map([[device(1, 1).id, 2_000]]));
    expect(Math.max(...sizes)).toBeLessThan(4);
  });
});

describe('an informer that waits', () => {
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
    await expect(informer.run({ signal: second.signal })).rejects.toThrow('already running');
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
