/** Owns what an owner who isolates a device is told: what the fleet refuses with it, who set that, whom else it is about, and what the fleet does not refuse (reference 1.5 (9)). */
import type { IsolationWarning, RefusedAddress } from '../../api/isolation.ts';
import { parseAddress, printAddress, type Address } from '../../policy/address.ts';
import { deviceIdentity } from '../../policy/fleet/identity.ts';
import type { DeviceId, OrganizationId } from '../../policy/ids.ts';
import { refusedAddresses } from '../../policy/isolation/isolation.ts';
import type { Family } from '../../policy/rule.ts';
import { policiesOf } from '../../organization/device-policies.ts';
import { indexDevices } from '../../organization/fleet.ts';
import type { Organization, OrganizationDevice } from '../../organization/organization.ts';
import type { SlicedWork } from '../scheduling/time-slices.ts';
import type { AddedAddress } from '../store/data/history.ts';
import type { History } from '../store/log/history.ts';
import { inWords, naming } from './warnings.ts';

export interface IsolatedNow {
  readonly org: OrganizationId;
  readonly id: DeviceId;
  readonly snapshot: Organization;
}

type Owners = (address: Address) => readonly OrganizationDevice[];

/** An answer has no more of those about earlier addresses. */
const mostEarlier = 100;

export interface IsolationEffect {
  readonly refused_addresses: readonly RefusedAddress[];
  readonly warnings: readonly IsolationWarning[];
}

/** The effect of the isolation that the snapshot has; of a device that is not isolated, that of one without exceptions. */
export async function isolationEffect(
  { org, id, snapshot }: IsolatedNow,
  { history, slices }: { readonly history: Pick<History, 'addressesOf'>; readonly slices: SlicedWork },
): Promise<IsolationEffect> {
  await slices.run(indexDevices(snapshot.devices.below));
  const { identity } = snapshot.devices.get(id) ?? {};
  const own = identity?.addresses ?? [];
  const refused = identity === undefined ? [] : refusedAddresses(identity);
  const { fleet } = policiesOf(snapshot);
  const ownersOf: Owners = ({ family, value }) => {
    const only = [{ first: value, last: value }];
    return fleet.nameSet(family === 4 ? { v4: only, v6: [] } : { v4: [], v6: only }).devices;
  };
  const othersWith: Owners = (address) => ownersOf(address).filter((device) => device.id !== id);
  const families = new Set<Family>();
  for (const device of snapshot.devices.values())
    for (const { family } of device.identity.addresses) families.add(family);
  const added = await history.addressesOf(org, id);
  return {
    refused_addresses: refused.map((address) => refusedAddress(address, added, othersWith(address))),
    warnings: [
      ...refused.flatMap((address) => sharedAddress(address, othersWith(address))),
      ...unrefused(own, families),
      ...earlierAddresses(
        added.map(({ address }) => address),
        ownersOf,
      ),
    ],
  };
}

function refusedAddress(
  { family, value }: Address,
  added: readonly AddedAddress[],
  others: readonly OrganizationDevice[],
): RefusedAddress {
  const address = printAddress(family, value);
  // A tunnel address is stored as it was written.
  const same = added.filter(({ address: text }) => {
    const parsed = parseAddress(text);
    return !('fault' in parsed) && parsed.family === family && parsed.value === value;
  });
  const { user_id, username, at } = same.toSorted((a, b) => (a.at < b.at ? 1 : -1))[0] ?? {};
  return {
    address,
    ...(user_id !== undefined &&
      at !== undefined && { set_by: { user_id, ...(username !== undefined && { username }), at } }),
    ...(others.length > 0 && naming(others)),
  };
}

function sharedAddress({ family, value }: Address, others: readonly OrganizationDevice[]): readonly IsolationWarning[] {
  if (others.length === 0) return [];
  const address = printAddress(family, value);
  const detail = `The other devices now refuse ${address} also as an address of ${inWords(others)}.`;
  return [{ code: 'shared_address', detail, address, ...naming(others) }];
}

/** Packets of the device that no other device can tell from those of a stranger. */
function unrefused(own: readonly Address[], families: ReadonlySet<Family>): readonly IsolationWarning[] {
  if (own.length === 0) {
    const detail =
      'The record of the device has no address, so no other device refuses it. Set its addresses: the other devices refuse them from then on.';
    return [{ code: 'no_address', detail }];
  }
  return [...families].flatMap((family): readonly IsolationWarning[] => {
    if (own.some((address) => address.family === family)) return [];
    const name = family === 4 ? 'IPv4' : 'IPv6';
    const detail = `The record of the device has no ${name} address, and other devices have one. If the device has one too, add it to its addresses: no other device refuses it yet.`;
    return [{ code: 'no_address_of_family', detail }];
  });
}

/** Those that the record had, and that no device has now: whoever took them out may use them still. */
function earlierAddresses(texts: readonly string[], ownersOf: Owners): readonly IsolationWarning[] {
  const { addresses } = deviceIdentity({ id: '', addresses: texts });
  return addresses
    .filter((address) => ownersOf(address).length === 0)
    .slice(0, mostEarlier)
    .map(({ family, value }) => {
      const address = printAddress(family, value);
      const detail = `The device had the address ${address}, which no record has now. If it can still use it, add it to its addresses: no other device refuses it yet.`;
      return { code: 'earlier_address', detail, address };
    });
}
