/** Owns who a far address is to a proposal: which labels or which device it proves. An address that a person merely lists proves nothing (reference 4.23 (3)). No effects. */
import { printAddress } from '../../policy/address.ts';
import { deviceIdentity } from '../../policy/fleet/identity.ts';
import type { DeviceId } from '../../policy/ids.ts';
import type { OrganizationFleet } from '../../organization/fleet.ts';
import type { OrganizationDevice } from '../../organization/organization.ts';
import type { IdentityState } from '../store/data/history.ts';
import type { StoredFlow } from '../store/data/flows.ts';

/** An address that more devices list proves nothing about any of them. */
export const mostHolders = 64;

export type FarAddress = Pick<StoredFlow, 'family' | 'far'>;

export const farKey = ({ family, far }: FarAddress): string => `${family} ${far}`;

/** When traffic with an address was seen. */
export interface SeenTimes {
  /** The end of the first report that has any traffic with the address. */
  readonly first: string;
  /** The end of the last report of the traffic that a rule is made for. */
  readonly last: string;
}

export interface FarEnd {
  readonly address: string;
  /** The devices that list the address now, by name. */
  readonly devices: readonly OrganizationDevice[];
  /** The labels by which a rule may name them. */
  readonly labels: readonly string[];
  /** Whether a rule may name the one device by its id. */
  readonly isDevice: boolean;
}

export const isProven = ({ labels, isDevice }: FarEnd): boolean => isDevice || labels.length > 0;

/** One state of a device, with its addresses as the policy reads them. */
interface Identity extends Pick<IdentityState, 'at' | 'labels' | 'by_owner' | 'is_first'> {
  readonly addresses: ReadonlySet<string>;
}

const identityOf = ({ at, labels, by_owner, is_first, tunnel_ip, addresses }: IdentityState): Identity => ({
  at,
  labels,
  by_owner,
  is_first,
  addresses: new Set(
    deviceIdentity({ id: '', tunnel_ip, addresses }).addresses.map(({ family, value }) => `${family} ${value}`),
  ),
});

/** The devices of a fleet by address and by label. Each question is answered once. */
export class FarEnds {
  readonly #fleet: OrganizationFleet;
  readonly #holders = new Map<string, readonly OrganizationDevice[]>();
  readonly #carriers = new Map<string, readonly OrganizationDevice[]>();
  /** Newest first. */
  readonly #states = new Map<DeviceId, Identity[]>();

  constructor(fleet: OrganizationFleet) {
    this.#fleet = fleet;
  }

  /** The devices that list the address now, by name. */
  holders(address: FarAddress): readonly OrganizationDevice[] {
    const key = farKey(address);
    let known = this.#holders.get(key);
    if (known === undefined) {
      const { family, far } = address;
      const only = [{ first: far, last: far }];
      known = this.#fleet.nameSet(family === 4 ? { v4: only, v6: [] } : { v4: [], v6: only }).devices;
      this.#holders.set(key, known);
    }
    return known;
  }

  carriers(label: string): readonly OrganizationDevice[] {
    let known = this.#carriers.get(label);
    if (known === undefined) this.#carriers.set(label, (known = [...this.#fleet.devicesOf({ labels: [label] })]));
    return known;
  }

  /** Takes the next older state of a device. */
  addState(state: IdentityState): void {
    const known = this.#states.get(state.device_id);
    if (known === undefined) this.#states.set(state.device_id, [identityOf(state)]);
    else known.push(identityOf(state));
  }

  /** Who the address is, as far as the states prove it that were added. */
  farEnd(address: FarAddress, { first, last }: SeenTimes): FarEnd {
    const key = farKey(address);
    const devices = this.holders(address);
    const [only] = devices;
    const known = devices.length <= mostHolders ? devices : [];
    return {
      address: printAddress(address.family, address.far),
      devices,
      labels: (known[0]?.identity.labels ?? []).filter((label) =>
        known.every((device) => this.#carried(device, label, key, last)),
      ),
      isDevice: only !== undefined && devices.length === 1 && this.#isSetByOwner(only.id, key, first),
    };
  }

  /** Whether the device carries the label now, and carried it with this address at that time. */
  #carried({ id, identity }: OrganizationDevice, label: string, key: string, at: string): boolean {
    const then = this.#states.get(id)?.find((state) => state.at <= at);
    return identity.labels.includes(label) && then?.addresses.has(key) === true && then.labels.includes(label);
  }

  /** Whether an owner gave the device this address by that time. Whoever leaves it as it is gives nothing. */
  #isSetByOwner(id: DeviceId, key: string, by: string): boolean {
    const states = this.#states.get(id) ?? [];
    const without = states.findIndex(({ addresses }) => !addresses.has(key));
    const set = without === -1 ? states.at(-1) : states[without - 1];
    // The history may have forgotten who gave it.
    const isKnown = without !== -1 || set?.is_first === true;
    return set !== undefined && isKnown && set.by_owner && set.at <= by;
  }
}
