/** Proves that one change to many devices touches each as wished, and that a failure in the middle loses nothing. */
import { describe, expect, it } from 'vitest';
import type { ChangeSetBody } from '../../api/change/change-set.ts';
import type { Device } from '../../api/device.ts';
import { RingfenceError } from '../../client/error.ts';
import { device, groupId } from '../../client/records.fixture.ts';
import { parseGroupId } from '../../policy/ids.ts';
import { patchFor, runBulk, type BulkAction, type BulkWrites, type Outcome } from './bulk.ts';

const add: BulkAction = { kind: 'add-group', group: groupId(9) };

describe('what is written', () => {
  const one = device(1, 1, { security_groups: [groupId(1), groupId(2)], labels: ['app', 'prod'] });

  it('keeps what the device has besides', () => {
    expect(patchFor({ kind: 'add-group', group: groupId(9) }, one)).toEqual({
      security_groups: [groupId(1), groupId(2), groupId(9)],
    });
    expect(patchFor({ kind: 'remove-group', group: groupId(1) }, one)).toEqual({ security_groups: [groupId(2)] });
    expect(patchFor({ kind: 'add-labels', labels: ['eu', 'app'] }, one)).toEqual({ labels: ['app', 'eu', 'prod'] });
    expect(patchFor({ kind: 'remove-labels', labels: ['prod', 'eu'] }, one)).toEqual({ labels: ['app'] });
  });

  it('is nothing where the device is as wished already', () => {
    expect(patchFor({ kind: 'add-group', group: groupId(1) }, one)).toBeUndefined();
    expect(patchFor({ kind: 'remove-group', group: groupId(9) }, one)).toBeUndefined();
    expect(patchFor({ kind: 'add-labels', labels: ['app'] }, one)).toBeUndefined();
    expect(patchFor({ kind: 'remove-labels', labels: ['eu'] }, one)).toBeUndefined();
  });
});

/** A server that keeps devices and fails as it is told: its next requests meet these failures. */
function server(devices: readonly Device[], failures: readonly RingfenceError[] = []) {
  const kept = new Map(devices.map((one) => [one.id as string, one]));
  const left = [...failures];
  const sets: ChangeSetBody[] = [];
  const writes: BulkWrites = {
    read: () => Promise.resolve([...kept.values()]),
    apply: (change) => {
      const error = left.shift();
      if (error !== undefined) return Promise.reject(error);
      for (const { id, revision } of change.devices ?? [])
        if (kept.get(id)?.revision !== revision)
          return Promise.reject(new RingfenceError({ code: 'precondition_failed', message: 'changed', status: 412 }));
      sets.push(change);
      for (const { id, revision = 0, security_groups = [] } of change.devices ?? []) {
        const now = kept.get(id);
        const list = security_groups.map(parseGroupId);
        if (now !== undefined) kept.set(id, { ...now, security_groups: list, revision: revision + 1 });
      }
      for (const id of change.delete ?? []) kept.delete(id);
      return Promise.resolve();
    },
  };
  return { kept, writes, sets };
}

async function run(action: BulkAction, devices: readonly Device[], writes: BulkWrites, signal?: AbortSignal) {
  const outcomes: Outcome[] = [];
  const pauses: number[] = [];
  await runBulk({
    action,
    devices,
    writes,
    pause: (ms) => {
      pauses.push(ms);
      return Promise.resolve();
    },
    onOutcome: (outcome) => outcomes.push(outcome),
    signal: signal ?? new AbortController().signal,
  });
  const results = Object.fromEntries(outcomes.map(({ device: { hostname }, result }) => [hostname, result]));
  return { results, outcomes, pauses };
}

const busy = new RingfenceError({ code: 'rate_limited', message: 'slowly', status: 429, retryAfter: 700 });
const refused = new RingfenceError({ code: 'forbidden', message: 'not yours', status: 403 });

describe('carrying it out', () => {
  const three = [1, 2, 3].map((number) => device(number, 1));
  const idOf = (number: number): string => device(number, 1).id;
  const all = (result: string) => ({ 'host-1': result, 'host-2': result, 'host-3': result });

  it('writes one change set, or nothing: a refusal changes no device, and its reason is told', async () => {
    const good = server(three);
    expect((await run(add, three, good.writes)).results).toEqual(all('done'));
    expect(good.sets).toHaveLength(1);
    const bad = server(three, [refused]);
    const { results, outcomes } = await run(add, three, bad.writes);
    expect(results).toEqual(all('failed'));
    expect(outcomes[0]?.error).toBe(refused);
    expect([...bad.kept.values()].map(({ security_groups }) => security_groups)).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });

  it('writes only devices that are not as wished', async () => {
    const some = [device(1, 1, { security_groups: [groupId(9)] }), device(2, 1)];
    const { writes, sets } = server(some);
    expect((await run(add, some, writes)).results).toEqual({ 'host-1': 'unchanged', 'host-2': 'done' });
    expect(sets.map(({ devices = [] }) => devices.map(({ id }) => id))).toEqual([[idOf(2)]]);
  });

  it('waits as long as a busy server asks, and then goes on', async () => {
    const { writes } = server(three, [busy, busy]);
    const { results, pauses } = await run(add, three, writes);
    expect(results).toEqual(all('done'));
    expect(pauses).toEqual([700, 700]);
  });

  it('keeps what somebody else wrote to a device meanwhile', async () => {
    const { kept, writes } = server([device(1, 5, { security_groups: [groupId(4)] })]);
    const { results } = await run(add, [device(1, 1)], writes);
    expect(results).toEqual({ 'host-1': 'done' });
    expect(kept.get(idOf(1))?.security_groups).toEqual([groupId(4), groupId(9)]);
  });

  it('counts a deletion whose answer was lost as done', async () => {
    const lost = new RingfenceError({ code: 'unreachable', message: 'no answer' });
    const { kept, writes } = server(three, [lost]);
    kept.clear();
    const { results } = await run({ kind: 'delete' }, three, writes);
    expect(results).toEqual(all('done'));
  });

  it('writes more devices than a change set holds in several, and begins no further one once it is stopped', async () => {
    const many = Array.from({ length: 1_500 }, (_, number) => device(number, 1));
    const { writes, sets } = server(many);
    const stopping = new AbortController();
    const stopped: BulkWrites = {
      ...writes,
      apply: async (change) => {
        await writes.apply(change);
        stopping.abort();
      },
    };
    const { outcomes } = await run(add, many, stopped, stopping.signal);
    expect(sets.map(({ devices = [] }) => devices.length)).toEqual([1_000]);
    expect(outcomes.filter(({ result }) => result === 'stopped')).toHaveLength(500);
  });
});
