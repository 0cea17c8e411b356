/** Owns the answer to "what would this change do?": who gains and loses what, in pages of devices, written while it is sent. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { InForce } from '../../api/enforcement/in-force.ts';
import type { SimulationWarning } from '../../api/change/simulation.ts';
import type { PolicyTestResult } from '../../api/policy-tests/policy-test.ts';
import { limits } from '../../api/limits.ts';
import { printRange } from '../../policy/address.ts';
import {
  SnapshotComparison,
  type DeviceDifference,
  type DeviceTraffic,
} from '../../policy/difference/snapshot-difference.ts';
import type { DeviceId } from '../../policy/ids.ts';
import type { PolicySnapshot } from '../../policy/snapshot/snapshot.ts';
import type { SlicedWork } from '../scheduling/time-slices.ts';

/** A device whose policy would mean another thing. */
export interface AffectedDevice {
  readonly id: DeviceId;
  readonly hostname: string;
  readonly difference: DeviceDifference;
}

/** All affected devices, in the order of their ids. Devices that have the same difference share the object. */
export async function affectedDevices(
  before: PolicySnapshot,
  after: PolicySnapshot,
  slices: SlicedWork,
): Promise<readonly AffectedDevice[]> {
  const comparison = await slices.run(SnapshotComparison.prepare(before, after));
  const affected: AffectedDevice[] = [];
  await slices.next();
  await slices.each(comparison.ids, (id) => {
    const difference = comparison.of(id);
    if (difference === undefined) return;
    const { hostname = '' } = after.devices.get(id) ?? before.devices.get(id) ?? {};
    affected.push({ id, hostname, difference });
  });
  return affected;
}

/** The far end names a bounded number of devices, and says how many there are; its ranges always say all. */
function trafficText({ direction, protocol, ports, v4, v6, far }: DeviceTraffic): string {
  const named = far.devices.slice(0, limits.simulatedFarDevices).map(({ id, hostname }) => ({ id, hostname }));
  return JSON.stringify({
    direction,
    protocol,
    ...(ports && { ports }),
    far: {
      ranges: [...v4.map((range) => printRange(4, range)), ...v6.map((range) => printRange(6, range))],
      devices: named,
      device_count: far.devices.length,
      others: far.others,
    },
  }).slice(1);
}

export interface SimulationAnswer {
  readonly revision: number;
  /** How many devices are affected, on all pages together. */
  readonly affected: number;
  readonly page: readonly AffectedDevice[];
  readonly inForce: ReadonlyMap<DeviceId, InForce>;
  readonly warnings: readonly SimulationWarning[];
  readonly tests: readonly PolicyTestResult[];
}

/** Characters that are written in one turn of the event loop. */
const writtenAtOnce = 500_000;

/** The answer as JSON, in parts. */
export async function* writeSimulation(answer: SimulationAnswer): AsyncGenerator<string> {
  const { revision, affected, page, inForce, warnings, tests } = answer;
  const known = page.flatMap(({ id }) => {
    const word = inForce.get(id);
    return word === undefined ? [] : [[id, word] as const];
  });
  const head = { revision, affected, devices: page.map(({ id }) => id), in_force: Object.fromEntries(known) };
  yield JSON.stringify(head).slice(0, -1);
  const texts = new WeakMap<DeviceTraffic, string>();
  for (const kind of ['gained', 'lost'] as const) {
    yield `,"${kind}":[`;
    let separator = '';
    let part: string[] = [];
    let size = 0;
    for (const { id, hostname, difference } of page) {
      const in_force = inForce.get(id);
      const device = `{"device":${JSON.stringify({ id, hostname, ...(in_force && { in_force }) })},`;
      for (const traffic of difference[kind]) {
        let text = texts.get(traffic);
        if (text === undefined) texts.set(traffic, (text = trafficText(traffic)));
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
  yield `,"warnings":${JSON.stringify(warnings)},"tests":${JSON.stringify(tests)}}`;
}
