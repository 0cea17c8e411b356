/** Owns which ends of tests a write has touched: a test of which neither end is touched comes out as before. */
import { parseAddress, type Address } from '../../policy/address.ts';
import type { DeviceIdentity } from '../../policy/fleet/identity.ts';
import { isNamed, peerKey } from '../../policy/fleet/selector.ts';
import type { OrganizationDevice } from '../organization.ts';
import type { Cohort } from './cohorts.ts';
import type { Effort } from './effort.ts';
import type { FleetIndex } from './fleet-index.ts';
import type { TestEnd } from '../../policy/policy-test/policy-test.ts';

/** Whether the end of a test names the device. */
export function isEnd(end: TestEnd, device: DeviceIdentity): boolean {
  if (!('address' in end)) return isNamed(end, device);
  const address = parseAddress(end.address);
  return (
    !('fault' in address) &&
    device.addresses.some(({ family, value }) => family === address.family && value === address.value)
  );
}

/** Devices, and the policies of their kinds. */
export interface TestedFleet {
  readonly fleet: FleetIndex;
  /** In the order of the kinds. */
  readonly ofKinds: readonly Cohort[];
}

/** Where more devices change, every test is judged again. */
const mostChanged = 200;
/** Devices that are compared between two pauses. */
const atOnce = 500;

/** Devices that are new, other or gone, as they were and as they are; undefined: too many. */
function* changedDevices(
  before: FleetIndex,
  after: FleetIndex,
): Generator<void, readonly OrganizationDevice[] | undefined> {
  const changed: OrganizationDevice[] = [];
  if (before === after) return changed;
  for (const [place, device] of after.devices.entries()) {
    const known = before.source.get(device.id);
    if (known !== device) changed.push(...(known === undefined ? [device] : [known, device]));
    if (changed.length > mostChanged) return undefined;
    if (place % atOnce === 0) yield;
  }
  for (const [place, device] of before.devices.entries()) {
    if (!after.source.has(device.id)) changed.push(device);
    if (changed.length > mostChanged) return undefined;
    if (place % atOnce === 0) yield;
  }
  return changed;
}

const addressKey = ({ family, value }: Address): string => `${family} ${value}`;

/**
 * What a test comes to depends on the devices and addresses of its ends, on the policies of these devices, and on who else has one of these addresses. Gives
 * undefined where every test has to be judged again.
 */
export function* touchedEnds(
  before: TestedFleet,
  { fleet, ofKinds }: TestedFleet,
  effort: Effort,
): Generator<void, ((end: TestEnd) => boolean) | undefined> {
  const devices = yield* changedDevices(before.fleet, fleet);
  if (devices === undefined) return undefined;
  const cohorts = new Map(before.fleet.kinds.map(({ key }, kind) => [key, before.ofKinds[kind]]));
  const kinds = new Set(fleet.kinds.flatMap(({ key }, kind) => (cohorts.get(key) === ofKinds[kind] ? [] : [kind])));
  const addresses = devices.flatMap(({ identity }) => identity.addresses);
  const named = new Set(addresses.map(addressKey));
  const owners = addresses.flatMap((address) => fleet.ownersAt(address).flatMap((place) => fleet.devices[place] ?? []));
  // Devices of one kind have the same labels.
  const alike = [...kinds].flatMap((kind) => fleet.kinds[kind]?.device ?? []);
  const identities = [...new Set([...devices, ...owners, ...alike])].map(({ identity }): DeviceIdentity => identity);
  effort.take(4 * (addresses.length + fleet.kinds.length + identities.length));
  yield;

  const isTouched = (end: TestEnd): boolean => {
    if ('address' in end) {
      const address = parseAddress(end.address);
      return !('fault' in address) && named.has(addressKey(address));
    }
    effort.take(2 * identities.length);
    if (identities.some((identity) => isNamed(end, identity))) return true;
    const place = 'device_id' in end ? fleet.placeOf(end.device_id) : undefined;
    return place !== undefined && kinds.has(fleet.kindOf[place] as number);
  };
  const known = new Map<string, boolean>();
  return (end) => {
    const key = 'address' in end ? end.address : peerKey(end);
    let touched = known.get(key);
    if (touched === undefined) known.set(key, (touched = isTouched(end)));
    return touched;
  };
}
