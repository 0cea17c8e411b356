/** Proves when a device's status is reported to the server, and in which words: on change, seldom otherwise, never all at once. */
import { afterEach, describe, expect, test } from 'vitest';
import type { DeviceReport } from '../../api/device.ts';
import { FakeClock, turn } from '../../client/fake.fixture.ts';
import { RingfenceError } from '../../client/error.ts';
import { parseInterfaceName } from '../../nft/names.ts';
import { groupOf } from '../loop/agent.fixture.ts';
import { Reporter, reportOf } from './reporter.ts';
import type { AgentStatus } from '../loop/status.ts';

const policy = { source: 'list', groups: [groupOf(1, [])] } as const;
const calm: AgentStatus = {
  startedAt: 0,
  selector: 'wg0',
  driver: { name: parseInterfaceName('wg0'), index: 3, neighbourDiscovery: false },
  forwarding: undefined,
  serverAccess: undefined,
  inForce: { origin: 'server', policy, revision: 7 },
  policyDigest: 'd'.repeat(64),
  appliedAt: 1,
  verifiedAt: 2,
  pending: false,
  observedRevision: 7,
  held: undefined,
  applies: 1,
  driftRepairs: 0,
  lastDrift: undefined,
  revokedConnections: 0,
  endedConnections: 0,
  counts: {},
  troubles: [],
  lastError: undefined,
  connection: { phase: 'live', since: 0, failures: 0 },
  clockOff: undefined,
  reverted: undefined,
};
const trouble = { step: 'apply', message: 'nft is missing', at: 0 } as const;

describe('a report', () => {
  test.each<[string, Partial<AgentStatus>, Partial<DeviceReport> | undefined]>([
    [
      'a policy in force',
      {},
      {
        state: 'applied',
        revision: 7,
        policy_digest: 'd'.repeat(64),
        policy_digest_form: 2,
        interface: 'wg0',
        drift_repairs: 0,
        agent_version: '1',
      },
    ],
    [
      'a failure',
      { troubles: [trouble], observedRevision: 9 },
      {
        state: 'failed',
        revision: 7,
        observed_revision: 9,
        detail: 'applying the policy: nft is missing',
      },
    ],
    [
      'a policy that is held',
      { held: { why: 'the group x is missing' } },
      { state: 'failed', detail: 'the group x is missing' },
    ],
    [
      'a policy that is not understood, by its code',
      { held: { why: 'the group x has a field', code: 'not_understood' } },
      { state: 'failed', code: 'not_understood', detail: 'the group x has a field' },
    ],
    ['no policy yet', { inForce: undefined, pending: true }, { state: 'starting' }],
    ['what holds before any policy', { inForce: { origin: 'first', policy } }, { state: 'starting' }],
    ['a policy that is being changed', { pending: true }, undefined],
    ['a policy that was not read back yet', { policyDigest: undefined }, undefined],
    [
      'an interface that is not there',
      { driver: { name: parseInterfaceName('wg0'), index: undefined, neighbourDiscovery: false } },
      { state: 'applied', detail: 'the interface wg0 does not exist' },
    ],
  ])('reports %s', (_, change, report) => {
    const reported = reportOf({ ...calm, ...change }, '1');
    if (report === undefined) expect(reported).toBeUndefined();
    else expect(reported).toMatchObject(report);
    if (report?.detail === undefined) expect(reported ?? {}).not.toHaveProperty('detail');
    if (report?.state !== 'failed') expect(reported ?? {}).not.toHaveProperty('observed_revision');
  });
});

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

function setUp(devices = 0) {
  const clock = new FakeClock();
  const sent: DeviceReport[] = [];
  const logged: string[] = [];
  const refuses: (report: DeviceReport) => RingfenceError | undefined = () => server.refusal;
  const server = {
    refusal: undefined as RingfenceError | undefined,
    refuses,
    attempts: 0,
    delay: undefined as Promise<void> | undefined,
  };
  const reporter = new Reporter({
    send: async (report) => {
      server.attempts += 1;
      await server.delay;
      const refusal = server.refuses(report);
      if (refusal !== undefined) throw refusal;
      sent.push(report);
    },
    version: '1',
    clock,
    monotonic: () => clock.now(),
    random: () => 0.5,
    log: (_, message) => logged.push(message),
    devices: () => devices,
  });
  const abort = new AbortController();
  const ended = reporter.run({ signal: abort.signal });
  ends.push(async () => {
    abort.abort();
    await ended;
  });
  const minute = (count = 1) => clock.advance(count * 60_000);
  return { clock, sent, logged, server, reporter, minute };
}

describe('the reporter', () => {
  test('reports each change soon, and otherwise that it lives every five minutes', async () => {
    const { clock, sent, reporter, minute } = setUp();
    reporter.see(calm);
    await clock.advance(10);
    expect(sent).toHaveLength(1);
    reporter.see({ ...calm, troubles: [trouble] });
    await clock.advance(1_000);
    expect(sent.map(({ state }) => state)).toEqual(['applied', 'failed']);
    await minute(4);
    expect(sent).toHaveLength(2);
    await minute(2);
    expect(sent).toHaveLength(3);
  });

  test('a server of an earlier version gets the report without the fields that it does not know, until it is another', async () => {
    const { clock, sent, reporter, server, logged, minute } = setUp();
    const unknown = { pointer: '/drift_repairs', code: 'unknown_field', detail: 'Unknown field.' } as const;
    server.refuses = (report) =>
      report.drift_repairs === undefined
        ? undefined
        : new RingfenceError({ code: 'invalid', message: 'invalid', status: 422, errors: [unknown] });
    reporter.see(calm);
    await clock.advance(10);
    expect(sent).toMatchObject([{ state: 'applied', revision: 7 }]);
    expect(sent[0]).not.toHaveProperty('drift_repairs');
    expect(logged).toEqual([]);
    await minute(6);
    expect([sent.length, server.attempts]).toEqual([2, 3]);
    // It was upgraded: its streams ended meanwhile.
    server.refuses = () => undefined;
    reporter.see({ ...calm, connection: { phase: 'waiting', since: 0, failures: 1 } });
    reporter.see({ ...calm, troubles: [trouble] });
    await clock.advance(1_000);
    expect(sent.at(-1)).toMatchObject({ state: 'failed', drift_repairs: 0 });
  });

  test('a server that does not know forms of digests gets no digest: it would take it for one of the oldest form', async () => {
    const { clock, sent, reporter, server } = setUp();
    const unknown = { pointer: '/policy_digest_form', code: 'unknown_field', detail: 'No such field.' } as const;
    server.refuses = (report) =>
      report.policy_digest_form === undefined
        ? undefined
        : new RingfenceError({ code: 'invalid', message: 'invalid', status: 422, errors: [unknown] });
    reporter.see(calm);
    await clock.advance(10);
    expect(sent).toMatchObject([{ state: 'applied', revision: 7 }]);
    expect(sent[0]).not.toHaveProperty('policy_digest');
    expect(sent[0]).not.toHaveProperty('policy_digest_form');
  });

  test('takes changes that come together as one', async () => {
    const { clock, sent, reporter } = setUp();
    reporter.see(calm);
    await clock.advance(10);
    for (let revision = 8; revision < 20; revision++) {
      const next = { source: 'list', groups: [groupOf(revision, [])] } as const;
      reporter.see({ ...calm, inForce: { origin: 'server', policy: next, revision } });
    }
    await clock.advance(1_000);
    expect(sent.map(({ revision }) => revision)).toEqual([7, 19]);
  });

  test("reports at once that a change of the device's own record has arrived, though no rule changed", async () => {
    const { sent, reporter, clock } = setUp();
    reporter.see({ ...calm, inForce: { origin: 'server', policy, revision: 7, own: 5 } });
    await clock.advance(10);
    reporter.see({ ...calm, inForce: { origin: 'server', policy, revision: 8, own: 8 } });
    await clock.advance(1_000);
    expect(sent.map(({ revision }) => revision)).toEqual([7, 8]);
  });

  test('reports a new revision of the same policy with the next report, not at once', async () => {
    const { sent, reporter, minute, clock } = setUp();
    reporter.see(calm);
    await clock.advance(10);
    reporter.see({ ...calm, inForce: { origin: 'server', policy, revision: 90 } });
    await minute(4);
    expect(sent).toHaveLength(1);
    await minute(1);
    expect(sent.at(-1)?.revision).toBe(90);
  });

  test('reports repaired drift at most every minute', async () => {
    const { sent, reporter, minute, clock } = setUp();
    reporter.see(calm);
    await clock.advance(10);
    for (let repairs = 1; repairs <= 120; repairs++) {
      reporter.see({ ...calm, driftRepairs: repairs });
      await clock.advance(1_000);
    }
    expect(sent.length).toBeLessThanOrEqual(3);
    await minute(1);
    expect(sent.at(-1)?.drift_repairs).toBe(120);
  });

  test('says nothing while the stream is not live, and the newest when it is', async () => {
    const { clock, sent, reporter, minute } = setUp();
    const away = { phase: 'waiting', since: 0, failures: 3 };
    reporter.see({ ...calm, connection: away });
    await minute(20);
    expect(sent).toEqual([]);
    reporter.see({ ...calm, driftRepairs: 5 });
    await clock.advance(10);
    expect(sent).toMatchObject([{ drift_repairs: 5 }]);
  });

  test('spreads the reports of a large organization', async () => {
    const { clock, sent, reporter } = setUp(10_000);
    reporter.see(calm);
    await clock.advance(9_999);
    expect(sent).toEqual([]);
    await clock.advance(2);
    expect(sent).toHaveLength(1);
  });

  test('reports at once when somebody waits: what the rules reflect by then, and what stands in the way', async () => {
    const { clock, sent, reporter } = setUp(10_000);
    reporter.see(calm);
    await clock.advance(60_000);
    expect(sent).toHaveLength(1);
    reporter.expect(9);
    await clock.advance(200);
    expect(sent).toHaveLength(1);
    reporter.see({ ...calm, inForce: { origin: 'server', policy, revision: 9 } });
    await clock.advance(200);
    expect(sent.map(({ revision }) => revision)).toEqual([7, 9]);
    reporter.expect(10);
    reporter.see({ ...calm, troubles: [trouble] });
    await clock.advance(200);
    expect(sent.map(({ state }) => state)).toEqual(['applied', 'applied', 'failed']);
  });

  test('one that fails as before says so once of the revision that somebody waits for, when it was tried', async () => {
    const { clock, sent, reporter } = setUp(10_000);
    const failing = { ...calm, troubles: [trouble], pending: true };
    reporter.see({ ...failing, observedRevision: 8 });
    await clock.advance(60_000);
    expect(sent).toMatchObject([{ state: 'failed', revision: 7, observed_revision: 8 }]);
    reporter.expect(9);
    reporter.see({ ...failing, observedRevision: undefined });
    await clock.advance(1_000);
    expect(sent).toHaveLength(1);
    reporter.see({ ...failing, observedRevision: 9 });
    await clock.advance(1_000);
    reporter.expect(9);
    await clock.advance(1_000);
    expect(sent.map(({ observed_revision }) => observed_revision)).toEqual([8, 9]);
  });

  test('a report that waits for its turn goes out at once when somebody waits for it', async () => {
    const { clock, sent, reporter } = setUp(10_000);
    reporter.see(calm);
    await clock.advance(1_000);
    expect(sent).toEqual([]);
    reporter.expect(7);
    await clock.advance(10);
    expect(sent).toHaveLength(1);
  });

  test('nobody who has said it is asked twice, and a wait that is not renewed ends', async () => {
    const { clock, sent, reporter } = setUp(10_000);
    reporter.see(calm);
    await clock.advance(60_000);
    reporter.expect(7);
    await clock.advance(1_000);
    expect(sent).toHaveLength(1);
    reporter.expect(8);
    await clock.advance(20_000);
    reporter.see({ ...calm, inForce: { origin: 'server', policy, revision: 8 } });
    await clock.advance(1_000);
    expect(sent).toHaveLength(1);
  });

  test('one that has nothing new to say reports at once where the server asks for any report, and only once', async () => {
    const { clock, sent, reporter } = setUp(10_000);
    reporter.see(calm);
    await clock.advance(60_000);
    expect(sent).toHaveLength(1);
    reporter.expect(0);
    await clock.advance(10);
    expect(sent).toHaveLength(2);
    await clock.advance(20_000);
    expect(sent).toHaveLength(2);
  });

  test('says everything again after the stream broke: the server may have lost what was said', async () => {
    const { clock, sent, reporter } = setUp();
    reporter.see(calm);
    await clock.advance(10);
    reporter.see({ ...calm, connection: { phase: 'waiting', since: 0, failures: 1 } });
    reporter.see(calm);
    await clock.advance(1_000);
    expect(sent).toHaveLength(2);
  });

  test('a report under way while the stream broke and came back does not count for the new stream', async () => {
    const { clock, sent, server, reporter } = setUp();
    let answer = (): void => {};
    server.delay = new Promise<void>((resolve) => (answer = resolve));
    reporter.see(calm);
    await clock.advance(10);
    reporter.see({ ...calm, connection: { phase: 'waiting', since: 0, failures: 1 } });
    reporter.see(calm);
    answer();
    server.delay = undefined;
    await clock.advance(1_000);
    expect([server.attempts, sent.length]).toEqual([2, 2]);
  });

  test('tries again after a failure, with growing waits, and logs a refusal once', async () => {
    const { sent, server, logged, reporter, minute } = setUp();
    server.refusal = new RingfenceError({ code: 'forbidden', message: 'read only', status: 403 });
    reporter.see(calm);
    await turn(3);
    await minute(30);
    expect(server.attempts).toBeGreaterThan(5);
    expect(server.attempts).toBeLessThan(30);
    expect(logged).toEqual(['the server does not accept the status of this device: read only']);
    server.refusal = undefined;
    await minute(6);
    expect(sent).not.toEqual([]);
  });
});

test("a clock that differs from the server's is reported beside what is in force, and hides no failure", () => {
  expect(reportOf({ ...calm, clockOff: 3_600_000 }, '1')).toMatchObject({
    state: 'applied',
    code: 'clock_off',
    detail: expect.stringContaining('60 min ahead of the clock of the server'),
  });
  const refusal = { step: 'apply', message: 'no', code: 'not_permitted', at: 0 } as const;
  expect(reportOf({ ...calm, clockOff: -120_000, troubles: [refusal] }, '1')).toMatchObject({
    state: 'failed',
    code: 'not_permitted',
    detail: expect.stringContaining('2 min behind'),
  });
});
