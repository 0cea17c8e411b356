/** Owns the answer to "what would this change do?": who gains and loses what, in pages of devices of a bounded size. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { InForce } from '../../api/enforcement/in-force.ts';
import type { SimulationWarning } from '../../api/change/simulation.ts';
import type { PolicyTestResult } from '../../api/policy-tests/policy-test.ts';
import { limits } from '../../api/limits.ts';
import { printRange } from '../../policy/address.ts';
import { Comparison, type DeviceDifference, type DeviceTraffic } from '../../organization/difference.ts';
import type { DeviceId } from '../../policy/ids.ts';
import type { Organization } from '../../organization/organization.ts';
import type { SlicedWork } from '../scheduling/time-slices.ts';

/** A device whose policy would mean another thing, with its entries as JSON, without their first field. */
export interface AffectedDevice {
  readonly id: DeviceId;
  readonly hostname: string;
  readonly gained: readonly string[];
  readonly lost: readonly string[];
}

export interface AffectedDevices {
  /** How many devices are affected, on all pages together. */
  readonly affected: number;
  /** In the order of their ids. */
  readonly page: readonly AffectedDevice[];
  /** Whether there are further devices after this page. */
  readonly isCut: boolean;
  /** Entries of the page that are left out. Only the first device of a page may have so many that they are no answer by themselves. */
  readonly tooMuch: { readonly gained: number; readonly lost: number };
}

export interface PageWanted {
  readonly after?: string | undefined;
  readonly limit?: number | undefined;
  /** Bytes that the page may have. */
  readonly bytes: number;
}

/** Bytes that a device takes in each of its entries besides its name, and in the lists of devices: ids, words, punctuation. */
const deviceBytes = 120;

interface DeviceText extends Pick<AffectedDevice, 'gained' | 'lost'> {
  /** Without what each entry says of the device. */
  readonly bytes: number;
  readonly tooMuch: AffectedDevices['tooMuch'];
}

/** The entries of a difference up to a size; what is left out is counted. */
function* textOf(
  difference: DeviceDifference,
  { head, most }: { readonly head: number; readonly most: number },
): Generator<undefined, DeviceText, undefined> {
  let [bytes, left] = [0, most];
  const told: Record<'gained' | 'lost', string[]> = { gained: [], lost: [] };
  const tooMuch = { ...difference.more };
  for (const kind of ['gained', 'lost'] as const) {
    for (const traffic of difference[kind]) {
      if (left <= 0) {
        tooMuch[kind] += 1;
        continue;
      }
      const text = trafficText(traffic);
      const size = Buffer.byteLength(text);
      left -= size + head;
      if (left < 0) tooMuch[kind] += 1;
      else {
        told[kind].push(text);
        bytes += size;
      }
      yield;
    }
  }
  return { ...told, bytes, tooMuch };
}

/** How many devices are affected, and a page of them. Devices that have the same difference share its text. */
export async function affectedDevices(
  before: Organization,
  after: Organization,
  wanted: PageWanted,
  slices: SlicedWork,
): Promise<AffectedDevices> {
  const comparison = await slices.run(Comparison.prepare(before, after));
  const page: AffectedDevice[] = [];
  const texts = new Map<DeviceDifference, DeviceText>();
  let [affected, left, isFull, isCut] = [0, wanted.bytes, false, false];
  let tooMuch = { gained: 0, lost: 0 };
  function* look(id: DeviceId): Generator<void> {
    if (!(yield* comparison.isAffected(id))) return;
    affected += 1;
    if (wanted.after !== undefined && id <= wanted.after) return;
    isCut ||= isFull || page.length >= (wanted.limit ?? Number.POSITIVE_INFINITY);
    if (isCut) return;
    const { hostname = '' } = after.devices.get(id) ?? before.devices.get(id) ?? {};
    const head = deviceBytes + Buffer.byteLength(JSON.stringify(hostname));
    const difference = yield* comparison.of(id);
    let text = texts.get(difference);
    if (text === undefined) texts.set(difference, (text = yield* textOf(difference, { head, most: wanted.bytes })));
    const bytes = text.bytes + (1 + text.gained.length + text.lost.length) * head;
    const isTooMuch = text.tooMuch.gained + text.tooMuch.lost > 0;
    isCut = page.length > 0 && (bytes > left || isTooMuch);
    if (isCut) return;
    page.push({ id, hostname, gained: text.gained, lost: text.lost });
    left -= bytes;
    tooMuch = text.tooMuch;
    isFull = isTooMuch;
  }
  for (const id of comparison.ids) await slices.run(look(id));
  return { affected, page, isCut, tooMuch };
}

/** The far end names a bounded number of devices, and says how many there are; its ranges always say all. */
function trafficText({ direction, protocol, ports, v4, v6, far }: DeviceTraffic): string {
  const { devices, others } = far();
  const named = devices.slice(0, limits.simulatedFarDevices).map(({ id, hostname }) => ({ id, hostname }));
  return JSON.stringify({
    direction,
    protocol,
    ...(ports && { ports }),
    far: {
      ranges: [...v4.map((range) => printRange(4, range)), ...v6.map((range) => printRange(6, range))],
      devices: named,
      device_count: devices.length,
      others,
    },
  }).slice(1);
}

export interface SimulationAnswer extends Pick<AffectedDevices, 'affected' | 'page' | 'tooMuch'> {
  readonly revision: number;
  readonly inForce: ReadonlyMap<DeviceId, InForce>;
  readonly warnings: readonly SimulationWarning[];
  readonly tests: readonly PolicyTestResult[];
}

/** What the answer has besides its devices, as JSON. */
export const besideDevices = ({ warnings, tests }: Pick<SimulationAnswer, 'warnings' | 'tests'>): string =>
  `,"warnings":${JSON.stringify(warnings)},"tests":${JSON.stringify(tests)}}`;

/** Characters that are written in one turn of the event loop. */
const writtenAtOnce = 500_000;

/** The answer as JSON, in parts. */
export async function* writeSimulation(answer: SimulationAnswer): AsyncGenerator<string> {
  const { revision, affected, page, inForce, tooMuch } = answer;
  const known = page.flatMap(({ id }) => {
    const word = inForce.get(id);
    return word === undefined ? [] : [[id, word] as const];
  });
  const head = {
    revision,
    affected,
    devices: page.map(({ id }) => id),
    in_force: Object.fromEntries(known),
    ...(tooMuch.gained + tooMuch.lost > 0 && { too_much: tooMuch }),
  };
  yield JSON.stringify(head).slice(0, -1);
  for (const kind of ['gained', 'lost'] as const) {
    yield `,"${kind}":[`;
    let separator = '';
    let part: string[] = [];
    let size = 0;
    for (const { id, hostname, [kind]: entries } of page) {
      const in_force = inForce.get(id);
      const device = `{"device":${JSON.stringify({ id, hostname, ...(in_force && { in_force }) })},`;
      for (const text of entries) {
        part.push(`${separator}${device}${text}`);
        size += device.length + text.length;
        separator = ',';
      }
      if (size < writtenAtOnce) continue;
      yield part.join('');
      [part, size] = [[], 0];
      await nextTurn();
    }
    yield part.join('');
    yield ']';
  }
  yield besideDevices(answer);
}
