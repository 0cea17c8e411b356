/** Proves that models follow the log: they load once, advance by new entries, and load again when the history was replaced. */
import { describe, expect, it } from 'vitest';
import { GroupRules } from '../../../organization/group-rules.ts';
import type { OrganizationChange } from '../../../organization/organization.ts';
import { parseDeviceId, parseOrganizationId } from '../../../policy/ids.ts';
import { processSlices } from '../../scheduling/time-slices.ts';
import type { Entry, LogSource, StateQuery } from '../data/change-log.ts';
import { FollowedLogs } from '../follow/followed-logs.ts';
import { OrganizationModels } from './organizations.ts';

const org = parseOrganizationId('00000000-0000-4000-8000-000000000001');
const idOf = (n: number): string => `00000000-0000-4000-8000-0000000000d${n}`;

const entry = (revision: number, n: number, hostname: string | undefined): Entry => ({
  revision,
  kind: 'device',
  type: hostname === undefined ? 'delete' : 'change',
  id: idOf(n),
  json: JSON.stringify({ id: idOf(n), hostname, revision }),
  identity: JSON.stringify({ id: idOf(n), hostname, revision }),
  only_for: undefined,
  left_at: 0,
});

/** A log of devices in memory that counts what is asked of it. */
class FakeLog implements LogSource {
  readonly entries: Entry[] = [];
  /** Each begins after as many entries. */
  eras = [{ era: 'one', first: 1 }];
  reads = { state: 0, changes: 0 };

  heads() {
    const organizations = new Map([
      [org, { revision: this.entries.length, version: this.eras.map(({ era }) => era).join() }],
    ]);
    return Promise.resolve({ organizations, ended: [], endedThrough: '' });
  }
  resumption() {
    return Promise.resolve({ gaps: [], eras: this.eras });
  }
  onHint() {
    return () => {};
  }
  /** Another database goes on from here. */
  cut(length: number): void {
    this.entries.length = length;
    this.eras = [...this.eras, { era: `after ${length}`, first: length + 1 }];
  }
  readState(_org: string, { projection, after }: StateQuery) {
    this.reads.state += 1;
    const newest = new Map(this.entries.flatMap((each) => (each.kind === projection ? [[each.id, each]] : [])));
    const entries = [...newest.values()].filter(({ type, revision }) => type === 'change' && revision > after);
    return Promise.resolve({ entries });
  }
  readChanges(_org: string, after: number, limit: number) {
    this.reads.changes += 1;
    return Promise.resolve(this.entries.slice(after, after + limit));
  }
}

const open = (monotonic: () => number = () => 0) => {
  const log = new FakeLog();
  const timers = { now: monotonic, defer: setImmediate, later: setTimeout };
  const logs = new FollowedLogs({ source: log, timers, onWarning: () => {} });
  const models = new OrganizationModels({ logs, source: log, slices: processSlices(), monotonic, clock: () => 1_000 });
  const names = async (): Promise<string[]> => {
    const { devices } = await models.read(org);
    return [...devices.values()].map(({ hostname }) => hostname).toSorted();
  };
  return { log, models, names };
};

describe('models of organizations', () => {
  it('are loaded once, and then advanced by the log', async () => {
    const { log, names, models } = open();
    log.entries.push(entry(1, 1, 'a'), entry(2, 2, 'b'));
    expect(await names()).toEqual(['a', 'b']);
    const { state } = log.reads;
    log.entries.push(entry(3, 1, undefined), entry(4, 3, 'c'));
    expect(await names()).toEqual(['b', 'c']);
    expect(log.reads.state).toBe(state);
    expect(await models.read(org)).toMatchObject({ revision: 4, at: 1_000 });
  });

  it('stay as they are when the log goes on', async () => {
    const { log, models } = open();
    log.entries.push(entry(1, 1, 'a'));
    const before = await models.read(org);
    log.entries.push(entry(2, 1, 'renamed'));
    const after = await models.read(org);
    const hostnameIn = ({ devices }: typeof before) => devices.get(parseDeviceId(idOf(1)))?.hostname;
    expect([hostnameIn(before), hostnameIn(after)]).toEqual(['a', 'renamed']);
  });

  it('are loaded afresh where a part of the history was discarded', async () => {
    const { log, names } = open();
    log.entries.push(entry(1, 1, 'a'), entry(2, 2, 'lost'));
    expect(await names()).toEqual(['a', 'lost']);
    log.cut(1);
    log.entries.push(entry(2, 3, 'other'));
    expect(await names()).toEqual(['a', 'other']);
  });

  it('do not hold the rules of large groups in memory, and read them again where they are asked for', async () => {
    const { log, models } = open();
    const id = '00000000-0000-4000-8000-0000000000a1';
    const peers = Array.from({ length: 20_000 }, (_, n) => ({ labels: [`label-${n}`] }));
    const record = (port: number) => ({
      id,
      group_name: 'é',
      revision: port,
      inbound_rules: [{ ip_protocol: 'tcp' as const, from_port: port, to_port: port, peers }],
    });
    const logged = (port: number): Entry => ({
      ...entry(port, 1, 'x'),
      kind: 'security-groups',
      id,
      json: JSON.stringify(record(port)),
      identity: undefined,
    });
    log.entries.push(logged(1));
    const [before] = (await models.read(org)).groups.values();
    log.entries.push(logged(2));
    const [after] = (await models.read(org)).groups.values();
    expect([before?.size, after?.size]).toEqual([logged(1).json.length, logged(2).json.length]);
    expect([before, after].map((group) => group?.group.inbound[0]?.from_port)).toEqual([1, 2]);
    expect(before?.group).toBe(before?.group);
    expect(before?.selectable.rules.peers.size).toBe(20_000);
    expect(before?.selectable.rules.hash).toBe(new GroupRules(record(1)).hash);
    expect(before?.selectable.rules.hash).not.toBe(after?.selectable.rules.hash);
  });

  it('hold what a few large groups say, so that few of many models have a file', async () => {
    const { log, models } = open();
    const group = (n: number) => ({
      id: `00000000-0000-4000-8000-0000000000b${n}`,
      group_name: '',
      group_description: 'x'.repeat(100_000),
      revision: n,
    });
    for (const n of [1, 2, 3]) {
      const { id } = group(n);
      log.entries.push({ ...entry(n, n, 'x'), kind: 'security-groups', id, json: JSON.stringify(group(n)) });
    }
    const sizes = [...(await models.read(org)).groups.values()].map(({ size }) => size);
    expect(sizes).toEqual([undefined, undefined, JSON.stringify(group(3)).length]);
  });

  it('let a transaction work for some milliseconds, and longer only where it has its turn', async () => {
    let now = 0;
    const { models } = open(() => now);
    const needsTurn = (): Error => new Error('this takes a turn');
    function* walk(): Generator<void, string> {
      for (let device = 0; device < 10; device += 1) {
        now += 4;
        yield;
      }
      return 'done';
    }
    expect(await models.inTransaction(org, { hasTurn: true, needsTurn }).run(walk())).toBe('done');
    const brief = models.inTransaction(org, { needsTurn });
    const before = now;
    await expect(brief.run(walk())).rejects.toThrow('this takes a turn');
    expect(now - before).toBe(28);
    await expect(brief.run(walk())).rejects.toThrow('this takes a turn');
    expect(now - before).toBe(32);
  });

  it('are known for a time without a question to the log, as they were', async () => {
    let now = 0;
    const { log, models } = open(() => now);
    log.entries.push(entry(1, 1, 'a'));
    expect(models.recent(org, 60_000)).toBeUndefined();
    await models.read(org);
    log.entries.push(entry(2, 2, 'b'));
    now = 60_000;
    expect(models.recent(org, 60_000)?.revision).toBe(1);
    now = 60_001;
    expect(models.recent(org, 60_000)).toBeUndefined();
    await models.read(org);
    expect(models.recent(org, 60_000)?.revision).toBe(2);
  });

  it('are known up to a revision without a question to the log', async () => {
    const { log, models } = open();
    log.entries.push(entry(1, 1, 'a'));
    await models.read(org);
    const { changes } = log.reads;
    log.entries.push(entry(2, 2, 'b'));
    expect((await models.atLeast(org, 1)).revision).toBe(1);
    expect(log.reads.changes).toBe(changes);
    expect((await models.atLeast(org, 2)).revision).toBe(2);
  });

  it('tell who follows them what happened since it last asked, each step once', async () => {
    const { log, models } = open();
    log.entries.push(entry(1, 1, 'a'));
    const first = await models.follow(org);
    expect(first.steps).toBeUndefined();
    log.entries.push(entry(2, 2, 'b'), entry(3, 1, undefined));
    await models.read(org);
    log.entries.push({ ...entry(4, 2, 'b'), identity: undefined });
    const second = await models.follow(org, first);
    const hostnameOf = (change: OrganizationChange | undefined): unknown =>
      change?.kind === 'device' ? (change.device?.hostname ?? 'gone') : 'nothing';
    expect(second.steps?.map(({ revision, change }) => [revision, hostnameOf(change)])).toEqual([
      [2, 'b'],
      [3, 'gone'],
    ]);
    expect((await models.follow(org, second)).steps).toEqual([]);
    expect(second.organization.revision).toBe(4);
    log.cut(3);
    expect((await models.follow(org, second)).steps).toBeUndefined();
  });
});
