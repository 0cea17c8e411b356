/** Proves that one change to many devices touches each as wished, and that a failure in the middle loses nothing. */
import { describe, expect, it } from 'vitest';
import type { Device } from '../../api/device.ts';
import { RingfenceError } from '../../client/error.ts';
import { device, groupId } from '../../client/records.fixture.ts';
import { patchFor, runBulk, type BulkAction, type DeviceWrites, type Outcome } from './bulk.ts';

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

/** A server that keeps devices and fails on purpose: each id has the failures of its next requests. */
function server(devices: readonly Device[], failures: Readonly<Record<string, readonly RingfenceError[]>> = {}) {
  const kept = new Map(devices.map((one) => [one.id as string, one]));
  const left = new Map(Object.entries(failures).map(([id, errors]) => [id, [...errors]]));
  const meet = (id: string): Device => {
    const error = left.get(id)?.shift();
    if (error !== undefined) throw error;
    const found = kept.get(id);
    if (found === undefined) throw new RingfenceError({ code: 'not_found', message: 'gone', status: 404 });
    return found;
  };
  const writes: DeviceWrites = {
    get: (id) => Promise.resolve(kept.get(id) ?? device(0, 0)),
    update: async (id, patch, revision) => {
      const now = meet(id);
      if (now.revision !== revision)
        throw new RingfenceError({ code: 'precondition_failed', message: 'changed', status: 412 });
      kept.set(id, { ...now, ...patch, revision: revision + 1 });
      return Promise.resolve();
    },
    delete: async (id) => {
      meet(id);
      kept.delete(id);
      return Promise.resolve();
    },
  };
  return { kept, writes };
}

async function run(action: BulkAction, devices: readonly Device[], writes: DeviceWrites, signal?: AbortSignal) {
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

  it('goes on past a device that refuses, and tells which and why', async () => {
    const { kept, writes } = server(three, { [idOf(2)]: [refused] });
    const { results, outcomes } = await run(add, three, writes);
    expect(results).toEqual({ 'host-1': 'done', 'host-2': 'failed', 'host-3': 'done' });
    expect(outcomes.find(({ result }) => result === 'failed')?.error).toBe(refused);
    expect([...kept.values()].map(({ security_groups }) => security_groups)).toEqual([
      [groupId(9)],
      undefined,
      [groupId(9)],
    ]);
  });

  it('waits as long as a busy server asks, and then goes on', async () => {
    const { writes } = server(three, { [idOf(1)]: [busy, busy] });
    const { results, pauses } = await run(add, three, writes);
    expect(results).toEqual({ 'host-1': 'done', 'host-2': 'done', 'host-3': 'done' });
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
    const { kept, writes } = server(three, { [idOf(3)]: [lost] });
    kept.delete(idOf(3));
    const { results } = await run({ kind: 'delete' }, three, writes);
    expect(results).toEqual({ 'host-1': 'done', 'host-2': 'done', 'host-3': 'done' });
    expect(kept.size).toBe(0);
  });

  it('begins no further device once it is stopped', async () => {
    const stopping = new AbortController();
    stopping.abort();
    const { kept, writes } = server(three);
    const { results } = await run({ kind: 'delete' }, three, writes, stopping.signal);
    expect(results).toEqual({ 'host-1': 'stopped', 'host-2': 'stopped', 'host-3': 'stopped' });
    expect(kept.size).toBe(3);
  });
});
