/**
 * Proves that servers, readers and devices survive one failover after another: the primary is killed under writers, its standby is promoted, and the old
 * primary returns as a standby. Prints how long writes took to succeed again.
 */
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Fleet } from '../end-to-end/fleet.ts';
import { Replica } from '../faults/replicas.ts';
import { eventually } from '../lib/eventually.ts';
import { freePort } from '../lib/free-port.ts';
import { Api } from '../lib/http.ts';
import { DatabasePair } from './database-pair.ts';
import { startGroupReaders } from './group-readers.ts';
import { GroupWriter } from './group-writers.ts';

const failovers = Number(process.env['RINGFENCE_FAILOVERS'] ?? 5);
const readerCount = Number(process.env['RINGFENCE_FAULT_STREAMS'] ?? 500);
const writerCount = 16;
const pauseMs = 800;
/** Acknowledged writes before each failover. */
const writesBetween = 40;
const devices = [1, 2, 3];

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);

const summary = (times: readonly number[]): string => {
  const sorted = times.map((ms) => Math.round(ms)).toSorted((a, b) => a - b);
  return `median ${sorted[sorted.length >> 1]} ms, slowest ${sorted.at(-1)} ms`;
};

test.each(['synchronous', 'asynchronous'] as const)(
  `${failovers} failovers with %s replication under ${writerCount} writers, ${readerCount} streams and ${devices.length} agents: no reader misses a change or keeps a ghost`,
  async (replication) => {
    const isLossy = replication === 'asynchronous';
    const pair = await DatabasePair.open(replication);
    const fleet = await Fleet.open({ devices: devices.length, phase: 3, databaseUrl: pair.url });
    onTestFinished(() => fleet.close());
    const { folder, url: here, place } = fleet.lab;
    const parts = { program: fleet.program.file, databaseUrl: pair.url, data: join(folder, 'other'), workers: 1 };
    const other = new Replica({ ...parts, port: await freePort() });
    onTestFinished(() => other.stop('SIGKILL'));
    await other.start();
    const servers = [here, other.url];
    const first = new Api(here, place.token);
    const apis = [first, new Api(other.url, place.token)];
    onTestFinished(() => apis.forEach((api) => api.close()));
    const base = `/api/organizations/${place.organization}`;
    const stop = new AbortController();
    onTestFinished(() => stop.abort());
    const { signal } = stop;
    const reading = { servers, token: place.token, org: place.organization, count: readerCount, signal };
    const readers = startGroupReaders(reading);
    await Promise.all(readers.map(({ synced }) => synced));

    const writing = new AbortController();
    onTestFinished(() => writing.abort());
    const writers = Array.from({ length: writerCount }, () => new GroupWriter());
    const working = Promise.all(writers.map((one) => one.work(apis, base, { signal: writing.signal, pauseMs })));
    const acknowledged = (): number => sum(writers.map((writer) => writer.acknowledged));
    const more = async (count: number): Promise<void> => {
      const enough = acknowledged() + count;
      await Promise.race([eventually('writers write', () => acknowledged() >= enough), working]);
    };

    const { id: defaultGroup } = await fleet.defaultGroup();
    const admitting = (port: number) => ({ inbound_rules: [{ ip_protocol: 'tcp', from_port: port, to_port: port }] });
    const setPolicy = (api: Api, port: number) => api.patch(`${base}/security_groups/${defaultGroup}`, admitting(port));
    const succeedsAt = async (api: Api, port: number, since: number): Promise<number> => {
      await eventually('the server takes writes', async () => {
        const { status } = await setPolicy(api, port).catch(() => ({ status: 0 }));
        return status === 200;
      });
      return performance.now() - since;
    };

    const back: number[] = [];
    for (let round = 1; round <= failovers; round += 1) {
      await more(writesBetween);
      if (isLossy) {
        await pair.detach();
        expect((await setPolicy(first, 20_000 + round)).status).toBe(200);
        await more(15);
        // Every kernel has what is about to be lost.
        await fleet.converged(...devices);
      }
      await pair.failOver();
      const promoted = performance.now();
      back.push(...(await Promise.all(apis.map((api, index) => succeedsAt(api, 10 * round + index, promoted)))));
      await fleet.converged(...devices);
      await pair.rejoin();
    }
    await more(writesBetween);
    writing.abort();
    await working;

    const groups: { id: string; group_name: string; group_description: string; revision: number }[] =
      await first.expect(200, 'GET', `${base}/security_groups`);
    // A repeated create made one group.
    expect(new Set(groups.map(({ group_name }) => group_name)).size).toBe(groups.length);
    const found = new Map(groups.map(({ id, group_description }) => [id, group_description]));
    if (!isLossy) {
      for (const { possible } of writers)
        for (const [id, states] of possible) expect(states, id).toContain(found.get(id));
    }
    const expected = new Map(groups.map(({ id, revision }) => [id, revision]));
    for (const reader of readers) await expect.poll(() => new Map(reader.held())).toEqual(expected);
    expect(readers.flatMap(({ faults }) => faults)).toEqual([]);
    const relists = sum(readers.map((reader) => reader.relists));
    // Where nothing is lost, every reader goes on from where it was.
    if (isLossy) expect(relists).toBeGreaterThan(0);
    else expect(relists).toBe(0);
    await fleet.converged(...devices);
    const repeated = sum(writers.map((writer) => writer.repeated));
    console.log(
      `${replication}: ${failovers} failovers, ${acknowledged()} acknowledged writes, ${repeated} creates repeated, ` +
        `${relists} listings again; first write at each server after promotion: ${summary(back)}`,
    );
  },
  3_600_000,
);
