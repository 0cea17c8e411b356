/**
 * Owns the measure of what observed traffic says of groups, in a fleet of 10,000 devices that report 100 tuples a minute: asking for the usage of a group, for all unused rules and for what a
 * watch-only group would do. Processor time of the server and of PostgreSQL counts.
 */
import { blockFilter, writeBlock } from '../../src/server/store/flows/sum-block.ts';
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

/** Every device was observed for a month, and said which rules of its groups decided. */
async function cover({ org, query, reportedRules: [rule] }: FlowPlace): Promise<void> {
  await query(
    `INSERT INTO refusal_levels (device_id, org_id, through, reports, usual, newest, rules_since)
     SELECT id, org_id, now(), 1, 0, 0, jsonb_build_object($2::text, now() - interval '${days + 1} days') FROM devices WHERE org_id = $1`,
    [org, rule?.group_id],
  );
  await query(
    `INSERT INTO flow_coverage (org_id, device_id, day, last_since, through, refused_seconds, all_seconds, not_recorded)
     SELECT $1, d.id, t::date, t, t, 0, 86400, 0
     FROM devices d, generate_series(now() - interval '${days} days', now(), interval '1 day') AS t WHERE d.org_id = $1`,
    [org],
  );
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
    const rows: string[][] = [];
    const goals: Goal[] = [];
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
    console.log(`\n${table([`${figure(devices)} devices, ${days} days`, 'ms', 'processor ms', 'answer'], rows)}`);
    return goals;
  } finally {
    await place.close();
  }
}
