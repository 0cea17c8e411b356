/** Owns pages of observed traffic: a walk over the blocks of all wanted devices, newest first and bounded. */
import { parseDeviceId, type DeviceId, type OrganizationId } from '../../../policy/ids.ts';
import { readFlowCursor, type FlowCursor, type FlowPage, type FlowQuery, type StoredFlow } from '../data/flows.ts';
import type { Runner } from '../postgres/connection.ts';
import * as sql from './statements.ts';
import { readBlock, wantedBits } from './sum-block.ts';

/** Blocks that one request looks at first and at most at a time. */
const fewBlocks = 64;
const manyBlocks = 1_024;
/** Blocks that one request looks at, and blocks whose sums it reads because they may hold what is wanted. */
const mostLooked = 16_384;
const mostOpened = 2_048;
/** Blocks of so few devices are read for each of them; those of more are picked from all blocks of the organization. */
const fewDevices = 256;
/** No block is of a longer time, also where reports of an hour are added up. */
const longestMs = 2 * 3_600_000;
/** Later than any time that is stored. */
const lastTime = '9999-12-31T00:00:00.000Z';
const firstTime = '1970-01-01T00:00:00.000Z';
const largestId = '9223372036854775807';

/** Where to begin: after a page, or at the newest block that can begin before the time asked for. */
function cursorOf({ after: text, until: before = lastTime }: FlowQuery): FlowCursor {
  if (text === undefined) {
    const newest = Math.min(Date.parse(before) + longestMs, Date.parse(lastTime));
    return { until: new Date(newest).toISOString(), id: largestId, place: 0 };
  }
  const cursor = readFlowCursor(text);
  if (cursor === undefined) throw new RangeError('no cursor of flows');
  return cursor;
}
const printCursor = ({ until, id, place }: FlowCursor): string => `${Date.parse(until)}.${id}.${place}`;

/** Whether blocks are read for each of these devices. */
const isOfFew = (devices: readonly DeviceId[] | undefined): devices is readonly DeviceId[] =>
  devices !== undefined && devices.length <= fewDevices;

/** A walk asks for the blocks of the same thousands of devices again and again: their array is written once. */
const arrays = new WeakMap<readonly DeviceId[], string>();

function arrayOf(devices: readonly DeviceId[]): string {
  let text = arrays.get(devices);
  if (text === undefined) arrays.set(devices, (text = `{${devices.join(',')}}`));
  return text;
}

const isBefore = (time: string, since: string | undefined): boolean =>
  since !== undefined && Date.parse(time) <= Date.parse(since);

/** The blocks of one device, or of the organization, as far as they were looked at. */
interface Lane {
  readonly device: DeviceId | undefined;
  /** The next block, or one before it. */
  from: Pick<FlowCursor, 'until' | 'id'>;
  /** How much time the last read went back. */
  span: number;
  done: boolean;
  /** Blocks that may hold what is wanted, older than what the page has. */
  rows: sql.LookedRow[];
}

type Place = Pick<FlowCursor, 'until' | 'id'>;
const compare = (a: Place, b: Place): number =>
  a.until < b.until ? 1 : a.until > b.until ? -1 : BigInt(a.id) < BigInt(b.id) ? 1 : a.id === b.id ? 0 : -1;

function readLanes(
  runner: Runner,
  org: OrganizationId,
  query: FlowQuery,
  { lanes, limit }: { readonly lanes: readonly Lane[]; readonly limit: number },
): Promise<readonly sql.LookedRow[]> {
  const { devices, since = firstTime, until = lastTime } = query;
  const [bits = null, otherBits = null] = wantedBits(query) ?? [];
  const [lane] = lanes;
  const common = [org, since, until];
  if (lane?.device !== undefined) {
    const from = [lanes.map((one) => one.from.until), bits, lanes.map((one) => one.from.id), limit, otherBits];
    return runner.run(sql.blocksOfDevices, [...common, ...from, lanes.map((one) => String(one.device))]);
  }
  const from = [lane?.from.until ?? firstTime, bits, lane?.from.id ?? '0', limit, otherBits];
  return runner.run(sql.blocksOfOrganization, [...common, ...from, devices === undefined ? null : arrayOf(devices)]);
}

/** Gives each lane what was read of it. A lane without a last block has no more. */
function share(rows: readonly sql.LookedRow[], lanes: readonly Lane[], limit: number): void {
  const byDevice = new Map(lanes.map((lane) => [String(lane.device), lane]));
  const open = new Set<Lane>();
  for (const row of rows) {
    const lane = byDevice.get(row.device_id) ?? byDevice.get('undefined');
    if (lane === undefined) continue;
    if (row.block !== null) lane.rows.push(row);
    if (row.place !== limit) continue;
    open.add(lane);
    lane.span = Date.parse(lane.from.until) - Date.parse(row.until);
    lane.from = { until: row.until, id: (BigInt(row.id) - 1n).toString() };
  }
  for (const lane of lanes) lane.done = !open.has(lane);
}

/**
 * The blocks of each device are a lane. A page has what is newer than the end of every lane; only lanes that would hold up the next step are read on, so that
 * one busy device among many costs no more than it does alone.
 */
export async function readPage(runner: Runner, org: OrganizationId, query: FlowQuery): Promise<FlowPage> {
  const flows: StoredFlow[] = [];
  const { devices } = query;
  if (devices?.length === 0) return { flows };
  const start = cursorOf(query);
  const laneOf = (device?: DeviceId): Lane => ({ device, from: start, span: Infinity, done: false, rows: [] });
  const lanes = isOfFew(devices) ? [...new Set(devices)].map(laneOf) : [laneOf()];
  let asked: readonly Lane[] = lanes;
  let limit = Math.ceil(fewBlocks / lanes.length);
  let end: Place = start;
  for (let seen = 0, opened = 0; seen < mostLooked && opened < mostOpened;) {
    share(await readLanes(runner, org, query, { lanes: asked, limit }), asked, limit);
    seen += asked.length * limit;
    const open = lanes.filter(({ done }) => !done).toSorted((a, b) => compare(a.from, b.from));
    const [first] = open;
    const isComplete = (row: Place): boolean => first === undefined || compare(row, first.from) < 0;
    const complete = lanes.flatMap(({ rows }) => rows.filter(isComplete)).toSorted(compare);
    for (const lane of lanes) lane.rows = lane.rows.filter((row) => !isComplete(row));
    for (const { id, device_id, since, until, block } of complete) {
      opened += 1;
      const firstPlace = id === start.id ? start.place : 0;
      for (const { place, sum } of block === null ? [] : readBlock(block, query)) {
        if (place < firstPlace) continue;
        if (flows.length === query.limit) return { flows, next: printCursor({ until, id, place }) };
        flows.push({ device_id: parseDeviceId(device_id), since, until, ...sum });
      }
    }
    if (first === undefined || isBefore(first.from.until, query.since)) return { flows };
    end = first.from;
    // The next read goes back about twice as far.
    const next = Date.parse(end.until) - 2 * first.span;
    asked = open.filter(({ from }) => from === end || Date.parse(from.until) > next);
    limit = Math.max(1, Math.min(2 * limit, Math.floor(manyBlocks / asked.length)));
  }
  return { flows, next: printCursor({ ...end, place: 0 }) };
}
