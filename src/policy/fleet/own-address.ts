/** Owns which addresses a device can have for itself (reference 2.12). */
import { parseRange, type Address } from '../address.ts';

const kinds = {
  unspecified: ['0.0.0.0/8', '::'],
  loopback: ['127.0.0.0/8', '::1'],
  'link-local': ['169.254.0.0/16', 'fe80::/10'],
  multicast: ['224.0.0.0/4', 'ff00::/8'],
  broadcast: ['255.255.255.255'],
} as const;

export type AddressKind = keyof typeof kinds;

const ranges = Object.entries(kinds).flatMap(([kind, texts]) =>
  texts.map((text) => {
    const range = parseRange(text);
    if ('fault' in range) throw new Error(text);
    return { kind: kind as AddressKind, ...range };
  }),
);

/** An IPv4 address that is written as an IPv6 one: `::ffff:127.0.0.1`. */
const mapped = ({ family, value }: Address): Address =>
  family === 6 && value >> 32n === 0xffffn ? { family: 4, value: value & 0xffff_ffffn } : { family, value };

/**
 * What the address is, where no device has it for itself: it means the reader's own machine, or many. Others need such
 * addresses, so that a fleet which refuses them harms itself. Nothing for all other addresses.
 */
export function sharedAddressKind(address: Address): AddressKind | undefined {
  const { family, value } = mapped(address);
  return ranges.find((range) => range.family === family && range.first <= value && value <= range.last)?.kind;
}

/** Whether the text is the broadcast address of its own network, such as `10.0.0.255/24`. */
export function isNetworkBroadcast(prefix: string): boolean {
  const range = parseRange(prefix);
  const address = parseRange(prefix.split('/')[0] ?? '');
  if ('fault' in range || 'fault' in address || range.family !== 4) return false;
  return range.last - range.first > 1n && address.first === range.last;
}
