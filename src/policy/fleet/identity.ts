/** Owns what the policy core knows of a device: its id, its labels, and its own addresses (reference 2.12). */
import { parseAddress, type Address } from '../address.ts';
import { readIsolationRecord, type Isolation, type IsolationRecord } from '../isolation/isolation-record.ts';

export interface DeviceIdentity {
  readonly id: string;
  readonly labels: readonly string[];
  /** Each once: those that the device's record names, and the host part of its tunnel address. */
  readonly addresses: readonly Address[];
  /** Only while the device is isolated. */
  readonly isolated?: Isolation;
}

/** A device's record, as far as it says who the device is. */
export interface IdentityRecord {
  readonly id: string;
  readonly tunnel_ip?: string;
  readonly addresses?: readonly string[];
  readonly labels?: readonly string[];
  readonly isolated?: IsolationRecord;
}

/** A device has few, so that the list is soon looked through. */
function addOwn(own: Address[], text: string): void {
  const address = parseAddress(text);
  if ('fault' in address) return;
  if (!own.some(({ family, value }) => family === address.family && value === address.value)) own.push(address);
}

/**
 * Reads the device from the record. Texts that are not addresses are ignored, and `child_prefix` never counts. Throws
 * `NotUnderstood` if its isolation has content that this program does not know.
 */
export function deviceIdentity(record: IdentityRecord): DeviceIdentity {
  const { id, tunnel_ip = '', addresses = [], labels = [], isolated } = record;
  const own: Address[] = [];
  const length = tunnel_ip.indexOf('/');
  addOwn(own, length === -1 ? tunnel_ip : tunnel_ip.slice(0, length));
  for (const text of addresses) addOwn(own, text);
  if (isolated === undefined) return { id, labels, addresses: own };
  return { id, labels, addresses: own, isolated: readIsolationRecord(id, isolated) };
}
