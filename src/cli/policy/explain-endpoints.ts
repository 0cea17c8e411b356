/** Owns the two ends and the port of a connection as users type them: as arguments, or by options. */
import type { Device } from '../../api/device.ts';
import { parseAddress, printAddress, type Address } from '../../policy/address.ts';
import { deviceIdentity } from '../../policy/fleet/identity.ts';
import type { Transport } from '../../policy/packet.ts';
import type { PastOptions } from '../lookup/past.ts';
import { deviceName, namesOfDevice, pickDevice } from '../lookup/device.ts';
import { namedLine } from '../session/find-one.ts';
import { usageError } from '../terminal/exit.ts';
import { nearService, readPort } from '../terminal/port.ts';

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
  // `ping` in the place of the port, as `explain --from` prints it.
  if (port === 'ping' && options.proto === 'tcp') return { from, to, proto: port, port: undefined };
  return { from, to, proto: options.proto, port };
}

/** One end of a connection, with every address that it may have there. */
export interface NamedEndpoint {
  readonly name: string;
  readonly addresses: readonly Address[];
  readonly device: Device | undefined;
  /** The device has no address of its own yet. Placeholder addresses are used instead. */
  readonly isStandIn: boolean;
}

/** The same at one of its addresses. */
export interface ExplainEndpoint extends Omit<NamedEndpoint, 'addresses'> {
  readonly address: Address;
}

/** Two addresses of one family, between which a connection is possible. */
export interface EndpointPair {
  readonly from: ExplainEndpoint;
  readonly to: ExplainEndpoint;
}

/** Tunnel addresses come first, where they have one family. */
export const pairsOf = (from: NamedEndpoint, to: NamedEndpoint): readonly EndpointPair[] =>
  from.addresses.flatMap((source) =>
    to.addresses
      .filter(({ family }) => family === source.family)
      .map((target) => ({ from: endpointAt(from, source), to: endpointAt(to, target) })),
  );

const endpointAt = ({ name, device, isStandIn }: NamedEndpoint, address: Address): ExplainEndpoint => ({
  name,
  device,
  isStandIn,
  address,
});

/** The address; undefined for a placeholder. */
const ownAddress = ({ address: { family, value }, isStandIn }: ExplainEndpoint): string | undefined =>
  isStandIn ? undefined : printAddress(family, value);

/** `between 100.64.0.1 and 100.64.0.2` */
export const pairWords = ({ from, to }: EndpointPair): string =>
  `between ${[from, to].map((end) => ownAddress(end) ?? `an IPv${end.address.family} address of ${end.name}`).join(' and ')}`;

/** For programs; without placeholders. */
export function pairData({ from, to }: EndpointPair): { readonly from_address?: string; readonly to_address?: string } {
  const [from_address, to_address] = [ownAddress(from), ownAddress(to)];
  return { ...(from_address !== undefined && { from_address }), ...(to_address !== undefined && { to_address }) };
}

export interface DeviceEndpoint extends NamedEndpoint {
  readonly device: Device;
}

export interface ExplainEndpoints {
  /** Absent with `--who`. */
  readonly from: NamedEndpoint | undefined;
  readonly to: NamedEndpoint;
  /** All devices, with stand-ins for the ends, and without `from` for every device that has no address yet. */
  readonly devices: readonly DeviceEndpoint[];
}

/**
 * Placeholder addresses that no device can have and no sensible rule names: from the reserved block 240.0.0.0/4 and the
 * discard-only block 100::/64.
 */
const standIns: Readonly<Record<4 | 6, (host: number) => Address>> = {
  4: (host) => ({ family: 4, value: (240n << 24n) + BigInt(host) }),
  6: (host) => ({ family: 6, value: (0x100n << 112n) + BigInt(host) }),
};

/** The device at placeholder addresses of these families. */
function standInFor(device: Device, families: readonly (4 | 6)[], host: number): DeviceEndpoint {
  const addresses = families.map((family) => standIns[family](host));
  const [tunnel_ip = '', ...others] = addresses.map(({ family, value }) => printAddress(family, value));
  return { name: deviceName(device), addresses, device: { ...device, tunnel_ip, addresses: others }, isStandIn: true };
}

const endpointOf = (device: Device): DeviceEndpoint => ({
  name: deviceName(device),
  addresses: deviceIdentity(device).addresses,
  device,
  isStandIn: false,
});

/**
 * Reads each endpoint: an address, or a device by any of its names. For a device, all its addresses count, its tunnel
 * address first. A device without one has placeholders, of the families of the other end.
 */
export function readEndpoints(
  { from, to }: { readonly from?: string | undefined; readonly to: string },
  all: readonly Device[],
): ExplainEndpoints {
  const found = [to, ...(from === undefined ? [] : [from])].map((text) => readEndpoint(text, all));
  const known = found.flatMap(({ addresses }) => addresses.map(({ family }) => family));
  const families = known.length === 0 ? ([4] as const) : [...new Set(known)];
  const placed = new Map<string, DeviceEndpoint>();
  const [there, here] = found.map((end, index): NamedEndpoint => {
    if (end.addresses.length > 0 || end.device === undefined) return end;
    const standIn = standInFor(end.device, families, index + 1);
    placed.set(end.device.id, standIn);
    return standIn;
  });
  if (there === undefined) throw new Error('the source and the destination are required');
  // Any device may be the other end: rules by label admit one that has no address yet, too.
  const others = here === undefined ? all.filter((one) => deviceIdentity(one).addresses.length === 0) : [];
  for (const [index, device] of others.entries())
    if (!placed.has(device.id)) placed.set(device.id, standInFor(device, families, index + 3));
  return { from: here, to: there, devices: all.map((device) => placed.get(device.id) ?? endpointOf(device)) };
}

function readEndpoint(text: string, devices: readonly Device[]): NamedEndpoint {
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
    return {
      name: device === undefined ? text : deviceName(device),
      addresses: [address],
      device,
      isStandIn: false,
    };
  }
  return endpointOf(pickDevice(devices, text));
}

const isSame = (a: Address, b: Address): boolean => a.family === b.family && a.value === b.value;

/** What a question is about, in the family of a pair. */
export type TransportOf = (family: 4 | 6) => Transport;

export const echoRequest: TransportOf = (family) =>
  family === 4 ? { kind: 'icmp', type: 8 } : { kind: 'icmpv6', type: 128 };

export function readTransport({ proto, port }: ExplainQuery): TransportOf {
  const word = proto.toLowerCase();
  if (word === 'tcp' || word === 'udp') {
    const number = readPort(port, word);
    if (port !== undefined && number === undefined)
      throw usageError(`\`${port}\` is not a port or a known service${nearService(port)}`);
    if (number === undefined)
      throw usageError(
        `${word} needs a port: give a number or a service after the devices, as in \`app-1 db-1 ssh\` or \`--who db-1 ssh\`, or use --port`,
      );
    return () => ({ kind: word, dport: number });
  }
  if (port !== undefined) throw usageError(`${proto} has no ports`);
  if (word === 'icmp' || word === 'icmpv4' || word === 'icmpv6' || word === 'ping') return echoRequest;
  const number = /^\d{1,3}$/.test(word) ? Number(word) : Number.NaN;
  if (number >= 0 && number <= 255) return () => ({ kind: 'other', protocol: number });
  throw usageError(`\`${proto}\` is not a protocol: use tcp, udp, icmp, or a protocol number`);
}

/** `tcp 5432` */
export const queryWords = ({ proto, port }: ExplainQuery): string => `${proto}${port === undefined ? '' : ` ${port}`}`;
