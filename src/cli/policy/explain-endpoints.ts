/** Owns the two ends and the port of a connection as users type them: as arguments, or by options. */
import type { Device } from '../../api/device.ts';
import { parseAddress, printAddress, type Address } from '../../policy/address.ts';
import { deviceIdentity } from '../../policy/fleet/identity.ts';
import type { PastOptions } from '../lookup/past.ts';
import { deviceName, namesOfDevice, pickDevice } from '../lookup/device.ts';
import { namedLine } from '../session/find-one.ts';
import { usageError } from '../terminal/exit.ts';

export interface ExplainOptions extends PastOptions {
  readonly from?: string;
  readonly to?: string;
  readonly proto: string;
  readonly port?: string;
  readonly who?: boolean;
  readonly exitCode?: boolean;
  /** The name of the test, or true. */
  readonly keep?: string | true;
}

export interface ExplainQuery {
  /** Absent with `--who`. */
  readonly from: string | undefined;
  /** Absent where the question is what `from` can reach. */
  readonly to: string | undefined;
  readonly proto: string;
  readonly port: string | undefined;
}

/** `app-1 db-1 5432`, or with `--who` `db-1 5432`. What an option gives is left out of the row: `--from app-1 db-1 5432`. */
export function readExplainQuery(row: readonly string[], options: ExplainOptions): ExplainQuery {
  const words = options.who === true ? (['to', 'port'] as const) : (['from', 'to', 'port'] as const);
  const names = words.filter((name) => options[name] === undefined);
  if (row.length > names.length)
    throw usageError(`too many arguments: give ${words.join(', ')}, each once, as an argument or by its option`);
  const given = new Map<string, string>(row.map((text, index) => [names[index] ?? '', text]));
  const [from, to, port] = (['from', 'to', 'port'] as const).map((name) => given.get(name) ?? options[name]);
  if (options.who === true && options.from !== undefined) throw usageError('--who lists every source; remove --from');
  if (options.keep !== undefined && (options.at ?? options.atRevision) !== undefined)
    throw usageError('--keep is about the present; remove --at');
  if (options.keep !== undefined && (from === undefined || to === undefined))
    throw usageError('--keep needs a source and a destination');
  const isReach = options.from !== undefined && options.who !== true && row.length === 0;
  if ((to === undefined && !isReach) || (from === undefined && options.who !== true)) {
    throw usageError('give the source and the destination: `ringfence explain app-1 db-1 5432`');
  }
  return { from, to, proto: options.proto, port };
}

export interface ExplainEndpoint {
  readonly name: string;
  readonly address: Address;
  readonly device: Device | undefined;
  /** The device has no address of its own yet. A placeholder address is used instead. */
  readonly isStandIn: boolean;
}

export interface ExplainEndpoints {
  /** Absent with `--who`. */
  readonly from: ExplainEndpoint | undefined;
  readonly to: ExplainEndpoint;
  /** All devices, with stand-ins for the ends, and without `from` for every device that has no address yet. */
  readonly devices: readonly Device[];
}

/**
 * Placeholder addresses that no device can have and no sensible rule names: from the reserved block 240.0.0.0/4 and the
 * discard-only block 100::/64.
 */
const standIns: Readonly<Record<4 | 6, (host: number) => Address>> = {
  4: (host) => ({ family: 4, value: (240n << 24n) + BigInt(host) }),
  6: (host) => ({ family: 6, value: (0x100n << 112n) + BigInt(host) }),
};

/**
 * Reads each endpoint: an address, or a device by any of its names. For a device, its tunnel address counts, or its
 * first other address, or a placeholder.
 */
export function readEndpoints(
  { from, to }: { readonly from?: string | undefined; readonly to: string },
  devices: readonly Device[],
): ExplainEndpoints {
  const found = [to, ...(from === undefined ? [] : [from])].map((text) => readEndpoint(text, devices));
  const family = found.find(({ address }) => address !== undefined)?.address?.family ?? 4;
  const placed = new Map<string, Device>();
  const [there, here] = found.map(({ name, address, device }, index): ExplainEndpoint => {
    if (address !== undefined) return { name, address, device, isStandIn: false };
    const standIn = standIns[family](index + 1);
    const moved = device && { ...device, tunnel_ip: printAddress(family, standIn.value) };
    if (moved !== undefined) placed.set(moved.id, moved);
    return { name, address: standIn, device: moved, isStandIn: true };
  });
  if (there === undefined) throw new Error('the source and the destination are required');
  // Any device may be the other end: rules by label admit one that has no address yet, too.
  const others = here === undefined ? devices.filter((one) => deviceIdentity(one).addresses.length === 0) : [];
  for (const [index, device] of others.entries())
    if (!placed.has(device.id))
      placed.set(device.id, { ...device, tunnel_ip: printAddress(family, standIns[family](index + 3).value) });
  return { from: here, to: there, devices: devices.map((device) => placed.get(device.id) ?? device) };
}

interface FoundEndpoint {
  readonly name: string;
  readonly address: Address | undefined;
  readonly device: Device | undefined;
}

function readEndpoint(text: string, devices: readonly Device[]): FoundEndpoint {
  const address = parseAddress(text);
  if (!('fault' in address)) {
    // A host name may look like an address too.
    const meant = devices.filter(
      (one) => one.hostname === text || deviceIdentity(one).addresses.some((own) => isSame(own, address)),
    );
    const [device, second] = meant;
    if (second !== undefined) {
      throw usageError(
        `${text} is ambiguous: ${meant.length} devices have this address or name; use an id:`,
        meant.map((one) => namedLine(namesOfDevice(one))),
      );
    }
    if (device !== undefined && !deviceIdentity(device).addresses.some((own) => isSame(own, address))) {
      throw usageError(`${text} is ambiguous: it is an address, and the name of the device ${device.id}`);
    }
    return { name: device === undefined ? text : deviceName(device), address, device };
  }
  const device = pickDevice(devices, text);
  return { name: deviceName(device), address: deviceIdentity(device).addresses[0], device };
}

const isSame = (a: Address, b: Address): boolean => a.family === b.family && a.value === b.value;
