/** Proves the informer's promise one sentence at a time, on streams that are fed by hand. */
import { describe, expect, it } from 'vitest';
import { problem, turn } from './fake.fixture.ts';
import { change, gone, informed, tail } from './informer.fixture.ts';
import { device, deviceId, group, groupId, organization } from './records.fixture.ts';

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

describe('an informer that is sent tokens', () => {
  const withToken = (document: object, token: string) => ({ ...document, token });

  it('asks for them, and resumes with the revision and the token that came last, whatever brought them', async () => {
    const { clock, stream, asked, seen } = informed(['device', 'security-groups']);
    await turn();
    expect(seen.at(-1)?.headers['prefer']).toContain('history-tokens');
    stream().send(
      withToken(change(device(1, 3), 'device'), 'a'),
      withToken({ ...tail('device'), revision: 4 }, 'a'),
      withToken(change(group(1, 2), 'security-groups'), 'a'),
    );
    await turn();
    stream().cut();
    await clock.advance(500);
    expect(asked()).toEqual([
      { kind: 'device', gt_revision: 4, token: 'a' },
      { kind: 'security-groups', gt_revision: 2, token: 'a' },
    ]);
    stream().send(
      withToken({ ...tail('device'), revision: 4 }, 'a'),
      withToken({ ...tail('security-groups'), revision: 4 }, 'a'),
      withToken(change(device(1, 7), 'device'), 'b'),
    );
    await turn();
    stream().cut();
    await clock.advance(500);
    expect(asked()).toEqual([
      { kind: 'device', gt_revision: 7, token: 'b' },
      { kind: 'security-groups', gt_revision: 7, token: 'b' },
    ]);
    stream().send(
      withToken({ ...tail('device'), revision: 7 }, 'b'),
      withToken({ ...tail('security-groups'), revision: 7 }, 'b'),
    );
    stream().send({ type: 'heartbeat', revision: 9, token: 'c' });
    await turn(3);
    stream().cut();
    await clock.advance(2_000);
    expect(asked()).toEqual([
      { kind: 'device', gt_revision: 9, token: 'c' },
      { kind: 'security-groups', gt_revision: 9, token: 'c' },
    ]);
  });

  it('does without where a server of an earlier version refuses the field, and resumes from the same revision', async () => {
    const refusal = () =>
      problem(422, { code: 'invalid', errors: [{ pointer: '/0/token', code: 'unknown_field', detail: 'No.' }] });
    const { clock, stream, asked, told } = informed(['device'], { answers: [undefined, refusal, undefined] });
    await turn();
    stream().send(withToken(change(device(1, 3)), 'a'), tail());
    await turn();
    stream().cut();
    await clock.advance(500);
    await turn();
    expect(asked()).toEqual([{ kind: 'device', gt_revision: 3 }]);
    stream().send(change(device(1, 5)), tail());
    await turn();
    expect(told).toEqual(['added device 1 3', 'updated device 1 3>5']);
  });
});
