/** Owns the measure of pages over many stored sums, also of searches that find nothing: requests to a real server over TLS, by the clock, before PostgreSQL has statistics and with them. */
import { Client } from 'pg';
import { blockFilter, writeBlock } from '../../src/server/store/flows/sum-block.ts';
import { median, type Goal } from '../lib/goals.ts';
import { ProcessorMeter, sumOf } from '../lib/processor-time.ts';
import { figure, table } from '../lib/table.ts';
import { openFlowPlace, sumsOf, tuplesPerReport, type FlowPlace } from './place.ts';

const sums = Number(process.env['RINGFENCE_BENCH_SUMS'] ?? 10_000_000);
const rounds = Number(process.env['RINGFENCE_BENCH_ROUNDS'] ?? 5);
const devices = 1_000;
const templates = 2_000;
/** Devices that have a group of their own. */
const few = 20;

/** As if each device had reported for some days: put in beside the store to save time. */
async function fill({ database, org }: FlowPlace): Promise<void> {
  const client = new Client({ connectionString: database.url });
  await client.connect();
  try {
    const blocks = Array.from({ length: templates }, (_, seed) => sumsOf(seed));
    await client.query('CREATE TEMP TABLE template (n integer PRIMARY KEY, filter bit(2048), block bytea)');
    await client.query(
      'INSERT INTO template SELECT n, f::bit(2048), b FROM unnest($1::integer[], $2::text[], $3::bytea[]) AS t (n, f, b)',
      [blocks.map((_, n) => n), blocks.map(blockFilter), blocks.map(writeBlock)],
    );
    const hours = Math.ceil(sums / tuplesPerReport / devices);
    await client.query(
      `INSERT INTO flows (org_id, device_id, since, until, part, observed_all, is_hourly, sums, filter, block)
       SELECT $1, d.id, t.until - interval '1 hour', t.until, 0, true, true, ${tuplesPerReport}, f.filter, f.block
       FROM generate_series(${hours}, 1, -1) AS hour
       CROSS JOIN (SELECT id, row_number() OVER (ORDER BY id) AS n FROM devices WHERE org_id = $1) AS d
       CROSS JOIN LATERAL (SELECT date_trunc('hour', now()) - hour * interval '1 hour' + d.n * interval '3 seconds' AS until) AS t
       JOIN template f ON f.n = (hour * 7 + d.n * 13) % ${templates}`,
      [org],
    );
  } finally {
    await client.end();
  }
}

interface Answered {
  readonly ms: number;
  readonly found: number;
  readonly next: string | undefined;
}

async function ask({ url, token }: FlowPlace, path: string): Promise<Answered> {
  const began = performance.now();
  const answer = await fetch(`${url}${path}`, { headers: { authorization: `Bearer ${token}` } });
  const text = await answer.text();
  const ms = performance.now() - began;
  if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${text}`);
  const next = /<([^>]+)>; *rel="?next/.exec(answer.headers.get('link') ?? '')?.[1];
  return { ms, found: (JSON.parse(text) as unknown[]).length, next: next && next.replace(/^https?:\/\/[^/]+/, '') };
}

interface Search {
  readonly name: string;
  readonly query: string;
  /** Walked to its end, because it finds nothing. */
  readonly isEmpty?: true;
}

async function measureAll(place: FlowPlace, searches: readonly Search[], when: string): Promise<readonly Goal[]> {
  const rows: string[][] = [];
  const goals: Goal[] = [];
  for (const { name, query, isEmpty } of searches) {
    const first = `${place.base}/flows?${query}`;
    const times: number[] = [];
    const meter = new ProcessorMeter(...place.pids);
    await ask(place, first);
    meter.start();
    for (let round = 0; round < rounds; round += 1) times.push((await ask(place, first)).ms);
    meter.stop();
    const walked: number[] = [];
    if (isEmpty === true) {
      for (let path: string | undefined = first; path !== undefined;) {
        const { ms, found, next }: Answered = await ask(place, path);
        if (found > 0) throw new Error(`${name} found ${found}`);
        walked.push(ms);
        path = next;
      }
    }
    const worst = Math.max(median(times), ...walked);
    rows.push([
      name,
      figure(median(times)),
      figure(sumOf(meter.total) / 1_000 / rounds),
      isEmpty === true
        ? `${walked.length}, ${figure(Math.max(...walked))}, ${figure(walked.reduce((a, b) => a + b, 0))}`
        : '',
    ]);
    goals.push({ what: `${name}, ${when}`, goal: 300, measured: worst, unit: 'ms' });
  }
  const head = [
    `${figure(sums)} sums, ${when}`,
    'first page, ms',
    'processor ms',
    'all pages: number, slowest, sum in ms',
  ];
  console.log(`\n${table(head, rows)}`);
  return goals;
}

export async function measureFlowPages(): Promise<readonly Goal[]> {
  const place = await openFlowPlace(devices);
  try {
    const { base, expect, query } = place;
    const group = await expect(201, 'POST', `${base}/security_groups`, { group_name: 'few' });
    for (const { id } of place.devices.slice(0, few))
      await expect(200, 'PATCH', `${base}/devices/${id}`, { security_groups: [group.id] });
    await fill(place);
    const [{ count } = { count: '' }] = await query<{ count: string }>('SELECT sum(sums) AS count FROM flows');
    console.log(`\n${figure(Number(count))} sums of ${figure(devices)} devices are stored.`);
    const [device] = place.devices;
    const before = new Date(Date.now() - 48 * 3_600_000).toISOString();
    const searches: readonly Search[] = [
      { name: 'the newest 100', query: 'limit=100' },
      { name: 'the newest 100 refused', query: 'limit=100&verdict=refused' },
      { name: 'the newest 100 before two days ago', query: `limit=100&until=${before}` },
      { name: 'a far end', query: 'limit=100&far=10.0.0.77&port=5432' },
      { name: 'one device', query: `limit=100&device_id=${device?.id}` },
      { name: 'devices with a group', query: `limit=100&group_id=${group.id}` },
      { name: 'nothing: a port', query: 'limit=100&port=81', isEmpty: true },
      { name: 'nothing: a far end', query: 'limit=100&far=203.0.113.7', isEmpty: true },
      { name: 'nothing: a range of far ends', query: 'limit=100&far=203.0.113.0/24', isEmpty: true },
      { name: 'nothing: one device', query: `limit=100&port=81&device_id=${device?.id}`, isEmpty: true },
      { name: 'nothing: devices with a group', query: `limit=100&port=81&group_id=${group.id}`, isEmpty: true },
      {
        name: 'nothing: a range before two days ago',
        query: `limit=100&far=203.0.113.0/24&until=${before}`,
        isEmpty: true,
      },
    ];
    const fresh = await measureAll(place, searches, 'before statistics');
    await query('ANALYZE');
    return [...fresh, ...(await measureAll(place, searches, 'with statistics'))];
  } finally {
    await place.close();
  }
}
