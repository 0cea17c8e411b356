/**
 * Owns the measure of a server that takes the reports of 10,000 devices with 100 tuples a minute: a thousand devices report ten times as often, each over a TLS connection that it keeps from one report
 * to the next, as agents do. Processor time of the server and of PostgreSQL counts, beside stretches without reports; and what adding the reports up by the hour costs.
 */
import { Agent, request } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { openStore } from '../../src/server/store/open.ts';
import { printAddress } from '../../src/policy/address.ts';
import { protocolName } from '../../src/policy/flow/protocol.ts';
import { median, type Goal } from '../lib/goals.ts';
import { ProcessorMeter, spentBy, sumOf } from '../lib/processor-time.ts';
import { figure, table } from '../lib/table.ts';
import type { BenchDevice } from '../receipts/fleet.ts';
import { openFlowPlace, rules, sumsOf, tuplesPerReport, type FlowPlace } from './place.ts';

const count = Number(process.env['RINGFENCE_BENCH_DEVICES'] ?? 1_000);
const perMinute = 10_000;
/** In one stretch: for half a minute, where the machine is quick enough for the pace of the fleet. */
const reportsOfStretch = Number(process.env['RINGFENCE_BENCH_REPORTS'] ?? 5_000);
const idleMs = 10_000;
/** Reports that are under way at once: a busy machine falls behind the pace and does not fail. */
const mostAtOnce = 64;
const pairs = Number(process.env['RINGFENCE_BENCH_PAIRS'] ?? 3);
/** Devices whose reports of an hour are added up. */
const addedUp = 200;

/** What devices send: the same traffic in every minute. */
class Reports {
  readonly #place: FlowPlace;
  readonly #agents = new Map<string, Agent>();
  readonly #bodies = new Map<string, string>();
  #reused = 0;
  sent = 0;

  constructor(place: FlowPlace) {
    this.#place = place;
    for (const [seed, { id }] of place.devices.entries()) {
      this.#agents.set(id, new Agent({ keepAlive: true, keepAliveMsecs: 90_000, timeout: 90_000, maxSockets: 1 }));
      const tuples = sumsOf(seed).map(({ direction, verdict, family, far, protocol, port, packets }) => ({
        direction,
        verdict,
        far: printAddress(family, far),
        protocol: protocolName(protocol),
        port,
        packets,
        decision:
          direction === 'in' && verdict === 'admitted'
            ? rules.findIndex((rule) => rule.ip_protocol === protocolName(protocol) && rule.from_port === port)
            : rules.length,
      }));
      const named = {
        rules: place.reportedRules,
        groups: place.reportedRules.slice(0, 1).map((rule) => rule.group_id),
      };
      this.#bodies.set(id, JSON.stringify({ observed: 'all', not_recorded: 0, tuples, ...named }).slice(1));
    }
  }

  /** The share of reports that came over the connection of an earlier one. */
  get reused(): number {
    return this.#reused / this.sent;
  }

  close(): void {
    for (const agent of this.#agents.values()) agent.destroy();
  }

  send({ id, token }: BenchDevice): Promise<void> {
    const now = Date.now();
    const times = { since: new Date(now - 60_000).toISOString(), until: new Date(now).toISOString() };
    const body = `${JSON.stringify(times).slice(0, -1)},${this.#bodies.get(id)}`;
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    return new Promise((resolve, reject) => {
      const options = { method: 'POST', headers, agent: this.#agents.get(id), rejectUnauthorized: false };
      const sent = request(`${this.#place.url}${this.#place.base}/devices/${id}/flows`, options, (answer) => {
        answer.resume();
        if (answer.statusCode !== 200) reject(new Error(`a report was answered ${answer.statusCode}`));
        else answer.on('end', resolve);
      });
      sent.on('error', reject);
      this.sent += 1;
      sent.end(body);
      sent.on('socket', () => (this.#reused += sent.reusedSocket ? 1 : 0));
    });
  }
}

/** Milliseconds of the processor that the server and PostgreSQL use meanwhile, and by the clock. */
async function spentOn(
  place: FlowPlace,
  work: () => Promise<unknown>,
): Promise<{ readonly spent: number; readonly ms: number }> {
  const meter = new ProcessorMeter(...place.pids);
  meter.start();
  const began = performance.now();
  await work();
  meter.stop();
  return { spent: sumOf(meter.total) / 1_000, ms: performance.now() - began };
}

/** At the pace of the whole fleet, or slower. */
async function sendAll(reports: Reports, devices: readonly BenchDevice[]): Promise<void> {
  const everyMs = 60_000 / perMinute;
  const began = performance.now();
  let next = 0;
  const run = async (): Promise<void> => {
    while (next < reportsOfStretch) {
      const n = next;
      next += 1;
      await sleep(Math.max(0, n * everyMs - (performance.now() - began)));
      const device = devices[n % devices.length];
      if (device !== undefined) await reports.send(device);
    }
  };
  await Promise.all(Array.from({ length: mostAtOnce }, run));
}

/** Milliseconds of processor time to add up the reports of one hour of one device. */
async function addingUp({ query, database, org }: FlowPlace): Promise<number> {
  await query(
    `WITH one AS MATERIALIZED (SELECT DISTINCT ON (device_id) device_id, filter, block, sums FROM flows WHERE org_id = $1 ORDER BY device_id LIMIT ${addedUp})
     INSERT INTO flows (org_id, device_id, since, until, part, observed_all, is_hourly, sums, filter, block)
     SELECT $1, device_id, t - interval '1 minute', t, 0, true, false, sums, filter, block
     FROM one, generate_series(0, 59) AS n, LATERAL (SELECT date_trunc('hour', now(), 'UTC') - interval '5 hours' + n * interval '1 minute' AS t) AS at`,
    [org],
  );
  const store = await openStore({ url: database.url, phase: 3 });
  try {
    const spent = await spentBy(() => store.flows.forget());
    const [left] = await query<{ count: string }>(
      `SELECT count(*) FROM flows WHERE NOT is_hourly AND until < now() - interval '4 hours'`,
    );
    if (left?.count !== '0') throw new Error(`${left?.count} reports are not added up`);
    return spent / 1_000 / addedUp;
  } finally {
    await store.close();
  }
}

export async function measureFlowReports(): Promise<readonly Goal[]> {
  const place = await openFlowPlace(count);
  try {
    const reports = new Reports(place);
    // Every device has a connection, and Node has compiled what a report runs.
    await sendAll(reports, place.devices);
    const each: number[] = [];
    const database: number[] = [];
    const shares: number[] = [];
    const paces: number[] = [];
    for (let pair = 0; pair < pairs; pair += 1) {
      const idle = await spentOn(place, () => sleep(idleMs));
      const meter = new ProcessorMeter(place.database.pid ?? 0);
      meter.start();
      const busy = await spentOn(place, () => sendAll(reports, place.devices));
      meter.stop();
      database.push(sumOf(meter.total) / 1_000 / reportsOfStretch);
      shares.push((idle.spent / idle.ms) * 100);
      each.push((busy.spent - (idle.spent * busy.ms) / idle.ms) / reportsOfStretch);
      paces.push((reportsOfStretch * 60_000) / busy.ms);
    }
    reports.close();
    const added = await addingUp(place);
    const ofCore = (milliseconds: number): number => (milliseconds * perMinute) / 600;
    const total = ofCore(median(each)) + ofCore(added / 60);
    console.log(
      table(
        [
          `reports of ${tuplesPerReport} tuples over TLS (${figure(reports.reused * 100)} % over a kept connection), ${pairs} × ${figure(reportsOfStretch)}`,
          'µs of the processor each',
          `% of a core at ${figure(perMinute)} a minute`,
        ],
        [
          ['server and PostgreSQL', each.map((one) => figure(one * 1_000)).join(', '), figure(ofCore(median(each)))],
          [
            '… of it PostgreSQL',
            database.map((one) => figure(one * 1_000)).join(', '),
            figure(ofCore(median(database))),
          ],
          ['adding up by the hour', figure((added * 1_000) / 60), figure(ofCore(added / 60))],
          ['without reports', '', shares.map(figure).join(', ')],
        ],
      ),
    );
    return [
      {
        what: '10,000 devices × 100 tuples a minute, with TLS and PostgreSQL',
        goal: 20,
        measured: total,
        unit: '% of a core',
        beside: `sent at ${figure(median(paces))} reports a minute`,
      },
    ];
  } finally {
    await place.close();
  }
}
