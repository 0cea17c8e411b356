/**
 * Owns the measure of what observed traffic says of groups, in a fleet of 10,000 devices that report 100 tuples a minute: counting five minutes of it by rule, as the upkeep does, and
 * asking for the usage of a group, for all unused rules and for what a watch-only group would do. Processor time of the server and of PostgreSQL counts.
 */
import { parseOrganizationId } from '../../src/policy/ids.ts';
import { Snapshots } from '../../src/server/preview/snapshots.ts';
import { processSlices } from '../../src/server/scheduling/time-slices.ts';
import { blockFilter, writeBlock } from '../../src/server/store/flows/sum-block.ts';
import { openStore } from '../../src/server/store/open.ts';
import { RuleCounter } from '../../src/server/usage/count-rules.ts';
import type { Goal } from '../lib/goals.ts';
import { ProcessorMeter, sumOf } from '../lib/processor-time.ts';
import { figure, table } from '../lib/table.ts';
import { openFlowPlace, sumsOf, tuplesPerReport, type FlowPlace } from './place.ts';

const devices = Number(process.env['RINGFENCE_BENCH_DEVICES'] ?? 10_000);
const minutes = 5;
const templates = 2_000;
const days = 30;
/** A server that needs longer answers 503. */
const mostMs = 30_000;

/** As if each device had reported each minute, up to now: put in beside the store to save time. */
async function report({ org, query }: FlowPlace, count: number): Promise<void> {
  const blocks = Array.from({ length: templates }, (_, seed) => sumsOf(seed));
  await query(
    `INSERT INTO flows (org_id, device_id, since, until, part, observed_all, is_hourly, sums, filter, block)
     SELECT $1, d.id, t.until - interval '1 minute', t.until, 0, true, false, ${tuplesPerReport}, f.filter::bit(2048), f.block
     FROM generate_series(${count}, 1, -1) AS minute
     CROSS JOIN (SELECT id, row_number() OVER (ORDER BY id) AS n FROM devices WHERE org_id = $1) AS d
     CROSS JOIN LATERAL (SELECT clock_timestamp() - minute * interval '1 second' - d.n * interval '1 microsecond' AS until) AS t
     JOIN unnest($2::integer[], $3::text[], $4::bytea[]) AS f (n, filter, block) ON f.n = (minute * 7 + d.n * 13) % ${templates}`,
    [org, blocks.map((_, n) => n), blocks.map(blockFilter), blocks.map(writeBlock)],
  );
}

const cover = ({ org, query }: FlowPlace): Promise<unknown> =>
  query(
    `INSERT INTO flow_coverage (org_id, device_id, day, last_since, through, refused_seconds, all_seconds, not_recorded)
     SELECT $1, d.id, t::date, t, t, 0, 86400, 0
     FROM devices d, generate_series(now() - interval '${days} days', now(), interval '1 day') AS t WHERE d.org_id = $1`,
    [org],
  );

/** Milliseconds of processor time to count what waits, in this process and in PostgreSQL. */
async function counting({ database, org }: FlowPlace): Promise<number> {
  const store = await openStore({ url: database.url, phase: 3 });
  const meter = new ProcessorMeter(process.pid, database.pid ?? 0);
  try {
    const slices = processSlices();
    const snapshots = new Snapshots({ log: store.log, slices, monotonic: () => performance.now(), clock: Date.now });
    await snapshots.read(parseOrganizationId(org));
    meter.start();
    await new RuleCounter({ store, snapshots, enter: async () => () => {}, slices, clock: Date.now }).countAll();
    meter.stop();
    if ((await store.ruleUsage.uncounted()).length > 0) throw new Error('not all is counted');
    return sumOf(meter.total) / 1_000;
  } finally {
    await store.close();
  }
}

export async function measureUsage(): Promise<readonly Goal[]> {
  const place = await openFlowPlace(devices);
  try {
    const { base, expect, pids } = place;
    const [used] = await expect(200, 'GET', `${base}/security_groups?limit=10`).then((groups) =>
      groups.filter(({ group_name }: { group_name: string }) => group_name === 'all'),
    );
    const watched = await expect(201, 'POST', `${base}/security_groups`, {
      group_name: 'watched',
      mode: 'observe',
      inbound_rules: [{ ip_protocol: 'tcp', from_port: 22, to_port: 22 }],
      applies_to: [{ all_devices: true }],
    });
    await cover(place);
    await report(place, minutes);
    await place.query('ANALYZE');
    const counted = await counting(place);
    const sums = devices * minutes * tuplesPerReport;
    console.log(
      `\nCounting ${figure(sums)} sums takes ${figure(counted)} ms of a processor, ${figure(counted / minutes / 600)} % of a core.`,
    );
    const rows: string[][] = [];
    const goals: Goal[] = [
      { what: 'counting by rule, share of a core', goal: 5, measured: counted / minutes / 600, unit: '%' },
    ];
    const ask = async (name: string, path: string): Promise<void> => {
      const meter = new ProcessorMeter(...pids);
      meter.start();
      const began = performance.now();
      const answer = await expect(200, 'GET', path);
      const ms = performance.now() - began;
      meter.stop();
      const said = JSON.stringify(answer.rules?.map(({ state }: { state: string }) => state) ?? answer.observed);
      rows.push([name, figure(ms), figure(sumOf(meter.total) / 1_000), said]);
      goals.push({ what: name, goal: mostMs, measured: ms, unit: 'ms' });
    };
    const usage = `${base}/security_groups/${used.id}/usage`;
    await ask('usage of a group, first', usage);
    await ask('usage of a group', usage);
    await ask('unused rules of all groups', `${base}/unused_rules`);
    await ask('a watch-only group', `${base}/security_groups/${watched.id}/observation`);
    await ask('a watch-only group, again', `${base}/security_groups/${watched.id}/observation`);
    await report(place, 1);
    await ask('usage, while a minute is not counted', usage);
    console.log(`\n${table([`${figure(devices)} devices, ${days} days`, 'ms', 'processor ms', 'answer'], rows)}`);
    return goals;
  } finally {
    await place.close();
  }
}
