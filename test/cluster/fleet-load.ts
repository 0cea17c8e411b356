/**
 * Owns the load of a fault run on one database: two servers, agents with real kernels, readers and writers; and what must hold at its end, whatever happened to
 * the database.
 */
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { Fleet } from '../end-to-end/fleet.ts';
import { Replica } from '../faults/replicas.ts';
import { eventually } from '../lib/eventually.ts';
import { freePort } from '../lib/free-port.ts';
import { Api } from '../lib/http.ts';
import { GroupWriter } from './group-writers.ts';
import { ReaderProcesses } from './reader-processes.ts';

export const readerCount = Number(process.env['RINGFENCE_FAULT_STREAMS'] ?? 500);
export const writerCount = 16;
export const agentCount = 3;
const pauseMs = 800;

export const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);

/** Service is to be back so soon. It is printed, not asserted: a busy machine takes longer. */
const soonMs = 5_000;
/** No measure: a server that is not back by then hangs. */
const hungMs = 60_000;

const distribution = (times: readonly number[]): string => {
  const sorted = times.map((ms) => Math.round(ms)).toSorted((a, b) => a - b);
  const at = (part: number): number | undefined => sorted[Math.floor((sorted.length - 1) * part)];
  const late = sorted.filter((ms) => ms > soonMs).length;
  return `median ${at(0.5)} ms, 90 % within ${at(0.9)} ms, slowest ${at(1)} ms; ${late} of ${sorted.length} after more than ${soonMs} ms`;
};

interface Attempt {
  readonly outcome: string;
  readonly ms: number;
}

/** Equal outcomes together, in the order in which they first came. */
function attemptSummary(attempts: readonly Attempt[]): string {
  const outcomes = [...new Set(attempts.map(({ outcome }) => outcome))];
  const timesOf = (outcome: string): number[] =>
    attempts.filter((one) => one.outcome === outcome).map(({ ms }) => Math.round(ms));
  return outcomes
    .map((outcome) => `${timesOf(outcome).length} × ${outcome}, ${Math.max(...timesOf(outcome))} ms at most`)
    .join('; ');
}

export class FleetLoad {
  readonly #title: string;
  readonly #fleet: Fleet;
  readonly #apis: readonly [Api, Api];
  readonly #readers: ReaderProcesses;
  readonly #writers: readonly GroupWriter[];
  readonly #working: Promise<unknown>;
  readonly #writing: AbortController;
  readonly #defaultGroup: string;
  readonly #base: string;
  readonly #back: number[] = [];

  private constructor(parts: {
    title: string;
    fleet: Fleet;
    apis: readonly [Api, Api];
    readers: ReaderProcesses;
    defaultGroup: string;
  }) {
    this.#title = parts.title;
    this.#fleet = parts.fleet;
    this.#apis = parts.apis;
    this.#readers = parts.readers;
    this.#defaultGroup = parts.defaultGroup;
    this.#base = `/api/organizations/${parts.fleet.org}`;
    this.#writing = new AbortController();
    this.#writers = Array.from({ length: writerCount }, () => new GroupWriter());
    const { signal } = this.#writing;
    this.#working = Promise.all(this.#writers.map((one) => one.work(parts.apis, this.#base, { signal, pauseMs })));
    onTestFinished(() => this.#writing.abort());
  }

  /** Everything runs. It ends with the test. */
  static async start(title: string, databaseUrl: string): Promise<FleetLoad> {
    const fleet = await Fleet.open({ devices: agentCount, phase: 3, databaseUrl });
    onTestFinished(() => fleet.close());
    const { folder, url: here, place } = fleet.lab;
    const parts = { program: fleet.program.file, databaseUrl, data: join(folder, 'other'), workers: 1 };
    const other = new Replica({ ...parts, port: await freePort() });
    onTestFinished(() => other.stop('SIGKILL'));
    await other.start();
    const apis = [new Api(here, place.token), new Api(other.url, place.token)] as const;
    onTestFinished(() => apis.forEach((api) => api.close()));
    const reading = { servers: [here, other.url], token: place.token, org: place.organization };
    const readers = await ReaderProcesses.start({ ...reading, count: readerCount });
    return new FleetLoad({ title, fleet, apis, readers, defaultGroup: (await fleet.defaultGroup()).id });
  }

  get #acknowledged(): number {
    return sum(this.#writers.map((writer) => writer.acknowledged));
  }

  /** Waits until so many more writes are acknowledged. */
  async more(count: number): Promise<void> {
    const enough = this.#acknowledged + count;
    await Promise.race([eventually('writers write', () => this.#acknowledged >= enough), this.#working]);
  }

  #admit(api: Api, port: number) {
    return api.patch(`${this.#base}/security_groups/${this.#defaultGroup}`, {
      inbound_rules: [{ ip_protocol: 'tcp', from_port: port, to_port: port }],
    });
  }

  /** Writes what is about to be lost: a rule that every kernel has then, and changes that readers have seen. */
  async writeDoomed(port: number): Promise<void> {
    expect((await this.#admit(this.#apis[0], port)).status).toBe(200);
    await this.more(15);
    await this.converged();
  }

  /** The kernels enforce what the database says. */
  converged(): Promise<void> {
    return this.#fleet.converged(...Array.from({ length: agentCount }, (_, index) => index + 1));
  }

  /** The database is back since this moment: waits until both servers take writes, and every kernel follows. */
  async recovered(what: string, since: number): Promise<void> {
    const times = await Promise.all(
      this.#apis.map(async (api, index) => {
        const attempts: Attempt[] = [];
        await eventually('the server takes writes', async () => {
          const begun = performance.now();
          const answer = await this.#admit(api, 1_000 + index).catch((error: unknown) => String(error));
          const isBroken = typeof answer === 'string';
          const isWritten = !isBroken && answer.status === 200;
          const outcome = isBroken ? answer : isWritten ? 'written' : `${answer.status} ${answer.json?.code}`;
          attempts.push({ outcome, ms: performance.now() - begun });
          return isWritten;
        });
        const ms = performance.now() - since;
        console.log(`${this.#title}, ${what}: writes again after ${Math.round(ms)} ms: ${attemptSummary(attempts)}`);
        return ms;
      }),
    );
    expect(Math.max(...times), 'milliseconds until the servers take writes').toBeLessThan(hungMs);
    this.#back.push(...times);
    await this.converged();
    const { relists } = await this.#readers.report();
    console.log(`${this.#title}, ${what}: ${relists} listings again so far`);
  }

  /** Ends the writers, and compares what everybody holds with the database. `isLossy`: acknowledged writes were lost. Gives how often readers listed again. */
  async finish({ isLossy }: { readonly isLossy: boolean }): Promise<number> {
    this.#writing.abort();
    await this.#working;
    const groups: { id: string; group_name: string; group_description: string; revision: number }[] =
      await this.#apis[0].expect(200, 'GET', `${this.#base}/security_groups`);
    // A repeated create made one group.
    expect(new Set(groups.map(({ group_name }) => group_name)).size).toBe(groups.length);
    const found = new Map(groups.map(({ id, group_description }) => [id, group_description]));
    if (!isLossy) {
      expect(sum(this.#writers.map(({ lost }) => lost))).toBe(0);
      for (const { possible } of this.#writers)
        for (const [id, states] of possible) expect(states, id).toContain(found.get(id));
    }
    await this.#readers.hold(groups.map(({ id, revision }) => [id, revision]));
    const { faults, relists } = await this.#readers.report();
    expect(faults).toEqual([]);
    await this.converged();
    const repeated = sum(this.#writers.map((writer) => writer.repeated));
    console.log(
      `${this.#title}: ${this.#acknowledged} acknowledged writes, ${repeated} creates repeated, ${relists} listings again; ` +
        `first write at each server: ${distribution(this.#back)}; load ${loadavg()[0]?.toFixed(1)}`,
    );
    return relists;
  }
}
