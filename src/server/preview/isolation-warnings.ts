/** Owns the warnings to the owner who isolates a device: whom else the fleet refuses with it, and what it does not refuse (reference 1.5 (9)). */
import type { IsolationWarning } from '../../api/isolation.ts';
import { printAddress, type Address } from '../../policy/address.ts';
import { deviceIdentity } from '../../policy/fleet/identity.ts';
import type { DeviceId, OrganizationId } from '../../policy/ids.ts';
import type { Family } from '../../policy/rule.ts';
import { policiesOf } from '../../policy/snapshot/device-policies.ts';
import { indexDevices } from '../../policy/snapshot/snapshot-fleet.ts';
import type { PolicySnapshot, SnapshotDevice } from '../../policy/snapshot/snapshot.ts';
import type { SlicedWork } from '../scheduling/time-slices.ts';
import type { History } from '../store/contract/history.ts';
import { inWords, naming } from './warnings.ts';

export interface IsolatedNow {
  readonly org: OrganizationId;
  readonly id: DeviceId;
  readonly snapshot: PolicySnapshot;
}

type Owners = (address: Address) => readonly SnapshotDevice[];

/** An answer has no more of those about earlier addresses. */
const mostEarlier = 100;

export async function isolationWarnings(
  { org, id, snapshot }: IsolatedNow,
  { history, slices }: { readonly history: Pick<History, 'addressesOf'>; readonly slices: SlicedWork },
): Promise<readonly IsolationWarning[]> {
  await slices.run(indexDevices(snapshot.devices.below));
  const own = snapshot.devices.get(id)?.identity.addresses ?? [];
  const { fleet } = policiesOf(snapshot);
  const ownersOf: Owners = ({ family, value }) => {
    const only = [{ first: value, last: value }];
    return fleet.nameSet(family === 4 ? { v4: only, v6: [] } : { v4: [], v6: only }).devices;
  };
  const families = new Set<Family>();
  for (const { identity } of snapshot.devices.values())
    for (const { family } of identity.addresses) families.add(family);
  return [
    ...own.flatMap((address) =>
      sharedAddress(
        address,
        ownersOf(address).filter((device) => device.id !== id),
      ),
    ),
    ...unrefused(own, families),
    ...earlierAddresses(await history.addressesOf(org, id), ownersOf),
  ];
}

function sharedAddress({ family, value }: Address, others: readonly SnapshotDevice[]): readonly IsolationWarning[] {
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
  const { addresses } = deviceIdentity({ id: '', addresses: texts.map((text) => text.split('/')[0] ?? '') });
  return addresses
    .filter((address) => ownersOf(address).length === 0)
    .slice(0, mostEarlier)
    .map(({ family, value }) => {
      const address = printAddress(family, value);
      const detail = `The device had the address ${address}, which no record has now. If it can still use it, add it to its addresses: no other device refuses it yet.`;
      return { code: 'earlier_address', detail, address };
    });
}
