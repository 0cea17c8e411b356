/** Proves the reports of observed traffic: their form, their bounds, and that what does not fit is a number. */
import { describe, expect, test } from 'vitest';
import { RingfenceError } from '../../client/error.ts';
import type { OpenFlows } from '../host/open-flows.ts';
import type { PoliciesInForce, Recorded } from '../kernel/flow-recorder.ts';
import type { FlowReport } from '../../api/flows/flow-report.ts';
import { written } from '../../nft/policies.fixture.ts';
import { ruleIdOf } from '../../policy/rule-identity/rule-id.ts';
import { groupOf } from '../loop/agent.fixture.ts';
import { FlowReports, withinBounds, type FlowReportsOptions } from './flow-reports.ts';

type RecordedTuple = Recorded['tuples'][number];

const tuple = (port: number, more: Partial<RecordedTuple> = {}): RecordedTuple => ({
  direction: 'inbound',
  verdict: 'refused',
  family: 4,
  far: 0x6440_0002n,
  protocol: 6,
  port,
  packets: 1,
  ...more,
});

const many = (count: number, more: Partial<RecordedTuple> = {}): RecordedTuple[] =>
  Array.from({ length: count }, (_, i) => tuple(i + 1, more));

/** A minute passes between two readings. */
function start(options: Partial<FlowReportsOptions> = {}) {
  const sent: FlowReport[] = [];
  let recorded: Recorded = { tuples: [], unrecorded: 0 };
  let now = Date.parse('2026-11-18T08:00:00Z');
  let awake = 0;
  const world = {
    isLive: true,
    sent,
    /** What rules record, and for how many minutes they have done it. */
    recording: ['all', Number.POSITIVE_INFINITY] as readonly ['refused' | 'all', number] | undefined,
    isBroken: false,
    rules: {} as object | undefined,
    open: { tuples: [], beyond: 0 } as OpenFlows,
    policies: { known: [], areAll: true, groups: undefined } as PoliciesInForce,
  };
  const reports = new FlowReports({
    take: async () => {
      if (world.isBroken) throw new Error('nft does not answer');
      if (world.recording === undefined) return undefined;
      const [observed, minutes] = world.recording;
      const { rules, policies } = world;
      return { ...recorded, observed, recordedFor: minutes * 60_000, rules, policies };
    },
    listOpen: async () => world.open,
    send: async (report) => {
      sent.push(report);
    },
    isLive: () => world.isLive,
    clock: { now: () => now, after: () => () => {} },
    monotonic: () => awake,
    random: () => 0,
    log: () => {},
    ...options,
  });
  const suspend = (minutes: number): void => {
    now += minutes * 60_000;
  };
  const pass = async (tuples: readonly RecordedTuple[], unrecorded = 0, minutes = 1): Promise<boolean> => {
    recorded = { tuples, unrecorded };
    now += minutes * 60_000;
    awake += minutes * 60_000;
    await reports.take();
    return reports.send(new AbortController().signal);
  };
  /** Of each report, its minutes after the start. */
  const minutes = (): readonly (readonly number[])[] =>
    sent.map(({ since, until }) =>
      [since, until].map((time) => (Date.parse(time) - Date.parse('2026-11-18T08:00:00Z')) / 60_000),
    );
  return Object.assign(world, { pass, suspend, minutes, reports });
}

describe('a report of observed traffic', () => {
  test('has the tuples of a minute in the words of the wire', async () => {
    const { pass, sent } = start();
    const { port: _, ...ping } = tuple(0, {
      verdict: 'admitted',
      direction: 'outbound',
      family: 6,
      far: 1n,
      protocol: 58,
    });
    const { port: __, ...sctp } = tuple(0, { protocol: 132, packets: 7 });
    expect(await pass([tuple(443), ping, sctp], 5)).toBe(true);
    expect(sent).toEqual([
      {
        since: '2026-11-18T08:00:00.000Z',
        until: '2026-11-18T08:01:00.000Z',
        observed: 'all',
        tuples: [
          { direction: 'in', verdict: 'refused', far: '100.64.0.2', protocol: 'tcp', port: 443, packets: 1 },
          { direction: 'in', verdict: 'refused', far: '100.64.0.2', protocol: '132', packets: 7 },
          { direction: 'out', verdict: 'admitted', far: '::1', protocol: 'icmpv6', packets: 1 },
        ],
        not_recorded: 5,
      },
    ]);
  });

  test('names the rules that decided, and says it again without them to a server that does not know the fields', async () => {
    const group = groupOf(1, [written('tcp', 443, 443)]);
    const policy = { source: 'list', groups: [group] } as const;
    const sent: FlowReport[] = [];
    let isOld = false;
    const world = start({
      send: async (report) => {
        sent.push(report);
        if (isOld && report.groups !== undefined)
          throw new RingfenceError({ code: 'invalid', status: 422, message: 'an unknown field' } as never);
      },
    });
    world.policies = { known: [policy], areAll: true, groups: [group.id] };
    const tuples = [tuple(443, { verdict: 'admitted' }), tuple(22)];
    await world.pass(tuples);
    expect(sent).toMatchObject([
      {
        tuples: [{ decision: 0 }, { decision: 1 }],
        decisions: [[0], []],
        groups: [group.id],
        rules: [{ group_id: group.id, rule_id: ruleIdOf('inbound', written('tcp', 443, 443)) }],
      },
    ]);
    isOld = true;
    expect(await world.pass(tuples)).toBe(true);
    expect(sent).toHaveLength(3);
    expect(JSON.stringify(sent[2])).not.toMatch(/rules|groups|decision/);
    expect(sent[2]?.tuples).toHaveLength(2);
  });

  test('of the time after a suspend is of as long as the server takes, and the next one of its minute', async () => {
    const { pass, suspend, minutes, sent } = start();
    suspend(179);
    await pass([tuple(443)]);
    await pass([]);
    expect(minutes()).toEqual([
      [120, 180],
      [180, 181],
    ]);
    expect(sent.map(({ tuples }) => tuples.length)).toEqual([1, 0]);
  });

  test('begins when the rules in force began to record it, not when other rules or none did', async () => {
    const world = start();
    world.recording = undefined;
    await world.pass([]);
    world.recording = ['refused', 0.25];
    await world.pass([tuple(1)]);
    world.recording = ['refused', 1.25];
    await world.pass([]);
    world.recording = ['all', 0];
    await world.pass([tuple(2)]);
    expect(world.minutes()).toEqual([
      [1.75, 2],
      [2, 3],
      [4, 4],
    ]);
  });

  test('tells of open connections when recording begins, and on each further day, so many at a time', async () => {
    const world = start();
    const keepOpen = (count: number): void => {
      const tuples = many(count).map(({ verdict: _verdict, packets: _packets, ...open }) => open);
      world.open = { tuples, beyond: 3 };
    };
    keepOpen(600);
    world.recording = ['refused', Number.POSITIVE_INFINITY];
    await world.pass([tuple(7)]);
    world.recording = ['all', 0];
    for (let i = 0; i < 3; i++) await world.pass([tuple(7), tuple(8, { verdict: 'admitted' })]);
    keepOpen(1);
    await world.pass([], 0, 16 * 60);
    await world.pass([]);
    expect(world.sent.map(({ tuples, not_recorded }) => [tuples.length, not_recorded])).toEqual([
      [1, 0],
      // What was recorded in the same minute is not told twice.
      [2 + 511, 3],
      [2 + 88, 0],
      [2, 0],
      [1, 3],
      [0, 0],
    ]);
    expect(world.sent[2]?.tuples.at(-1)).toMatchObject({ verdict: 'admitted', packets: 1 });
  });

  test('tells of open connections again when rules have changed, soon but not each minute, and only after all of the last listing', async () => {
    const world = start();
    const { pass, sent } = world;
    const keepOpen = (count: number): void => {
      const tuples = many(count).map(({ verdict: _verdict, packets: _packets, ...open }) => open);
      world.open = { tuples, beyond: 0 };
    };
    const told = async (times: number): Promise<readonly number[]> => {
      sent.length = 0;
      for (let i = 0; i < times; i++) await pass([]);
      return sent.map(({ tuples }) => tuples.length);
    };
    keepOpen(2);
    expect(await told(2)).toEqual([2, 0]);
    // Other rules in force: to usage, one that was edited is a new one, and the connection that it admits has sent its first packet long ago.
    world.rules = {};
    expect(await told(9)).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 2]);
    expect(await told(20)).toEqual(Array.from({ length: 20 }, () => 0));
    keepOpen(6_000);
    world.rules = {};
    expect(await told(1)).toEqual([512]);
    keepOpen(1);
    world.rules = {};
    expect(await told(12)).toEqual([...Array.from({ length: 10 }, () => 512), 368, 1]);
  });

  test('tells of open connections as soon as rules are in force by which they can be judged', async () => {
    const world = start();
    world.open = { tuples: [{ direction: 'inbound', family: 4, far: 1n, protocol: 6, port: 22 }], beyond: 0 };
    world.rules = undefined;
    await world.pass([]);
    world.rules = {};
    await world.pass([]);
    expect(world.sent.map(({ tuples }) => tuples.length)).toEqual([0, 1]);
  });

  test('has what was recorded where open connections cannot be listed, which is tried again', async () => {
    const listed = { count: 0 };
    const { pass, sent } = start({
      listOpen: async () => {
        listed.count += 1;
        throw new Error('no conntrack');
      },
    });
    await pass([tuple(1)]);
    await pass([tuple(2)]);
    expect(sent.map(({ tuples }) => tuples.map(({ port }) => port))).toEqual([[1], [2]]);
    expect(listed.count).toBe(2);
  });

  test('is not of longer than the kernel keeps what nobody reads, where it could not be read for long', async () => {
    const world = start();
    await world.pass([]);
    world.isBroken = true;
    for (let i = 0; i < 30; i++) await world.pass([]);
    world.isBroken = false;
    await world.pass([tuple(1)]);
    await world.pass([]);
    expect(world.minutes()).toEqual([
      [0, 1],
      [23, 32],
      [32, 33],
    ]);
  });

  test('waits while the server is away, and reports of later minutes with it, oldest first', async () => {
    const world = start();
    world.isLive = false;
    expect(await world.pass([tuple(1)])).toBe(false);
    expect(await world.pass([tuple(2)])).toBe(false);
    world.isLive = true;
    expect(await world.pass([tuple(3)])).toBe(true);
    expect(world.sent.map(({ tuples }) => tuples.map(({ port }) => port))).toEqual([[1], [2], [3]]);
  });

  test('is sent when the agent stops, with what waits', async () => {
    const world = start();
    world.isLive = false;
    await world.pass([tuple(1)]);
    await world.reports.finish();
    expect(world.sent.map(({ tuples }) => tuples.map(({ port }) => port))).toEqual([[1], [1]]);
  });

  test.each([
    ['reports', { mostWaiting: 2 }],
    ['tuples', { mostTuples: 2 }],
  ])('beyond so many %s gives way to a later one, which counts its packets as not recorded', async (_, bound) => {
    const world = start(bound);
    world.isLive = false;
    await world.pass([tuple(1, { packets: 10 })], 1);
    for (const port of [2, 3, 4]) await world.pass([tuple(port)]);
    world.isLive = true;
    await world.pass([tuple(5)]);
    expect(world.sent.map(({ tuples }) => tuples[0]?.port)).toEqual([4, 5]);
    // The first minute had 11 packets, the second and third one each.
    expect(world.sent.reduce((sum, { not_recorded }) => sum + not_recorded, 0)).toBe(13);
  });

  test('that the server refuses is not sent again, and one that it cannot take now is', async () => {
    const answers = [
      new RingfenceError({ code: 'unavailable', status: 503, message: 'later' } as never),
      new RingfenceError({ code: 'not_found', status: 404, message: 'no such operation' } as never),
    ];
    expect(answers.map(({ retryable }) => retryable)).toEqual([true, false]);
    let asked = 0;
    const { pass } = start({
      send: async () => {
        const answer = answers[asked++];
        if (answer !== undefined) throw answer;
      },
    });
    expect(await pass([tuple(1)])).toBe(false);
    expect(await pass([tuple(2)])).toBe(true);
    expect(asked).toBe(3);
  });
});

describe('the bounds of a report', () => {
  test('are 4,096 of each direction and family; where both verdicts have more, each has half', () => {
    const kept = withinBounds([
      ...many(4_096),
      ...many(4_096, { verdict: 'admitted' }),
      ...many(100, { direction: 'outbound' }),
      ...many(4_000, { family: 6 }),
      ...many(200, { family: 6, verdict: 'admitted' }),
    ]);
    const count = (wanted: Partial<RecordedTuple>): number =>
      kept.filter((each) => Object.entries(wanted).every(([key, value]) => each[key as keyof RecordedTuple] === value))
        .length;
    expect(count({ direction: 'inbound', family: 4, verdict: 'refused' })).toBe(2_048);
    expect(count({ direction: 'inbound', family: 4, verdict: 'admitted' })).toBe(2_048);
    expect(count({ direction: 'outbound' })).toBe(100);
    expect(count({ family: 6, verdict: 'refused' })).toBe(3_896);
    expect(count({ family: 6, verdict: 'admitted' })).toBe(200);
  });
});
