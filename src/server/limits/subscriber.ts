/** Owns the key by which the server counts the requests, bodies and connections of an address. */
import { isIP } from 'node:net';

/** The eight groups of an IPv6 address, a trailing IPv4 address included. */
function groupsOf(address: string): readonly string[] {
  const [head = '', tail] = (address.split('%', 1)[0] ?? '').split('::');
  const read = (part: string): string[] => {
    const groups = part === '' ? [] : part.split(':');
    const last = groups.at(-1);
    if (last === undefined || !last.includes('.')) return groups;
    const [a = 0, b = 0, c = 0, d = 0] = last.split('.').map(Number);
    return [...groups.slice(0, -1), (a * 256 + b).toString(16), (c * 256 + d).toString(16)];
  };
  const [before, after] = [read(head), read(tail ?? '')];
  const gap = tail === undefined ? 0 : 8 - before.length - after.length;
  return [...before, ...Array.from({ length: Math.max(0, gap) }, () => '0'), ...after];
}

/**
 * Of IPv6 it is the /64: one customer has as many addresses in it as it likes.
 * An IPv4 address written as IPv6 is that IPv4 address.
 */
export function subscriberOf(address: string): string {
  if (isIP(address) !== 6) return address;
  const groups = groupsOf(address.toLowerCase()).map((group) => Number.parseInt(group, 16) || 0);
  const [g0, g1, g2, g3, g4, g5, g6 = 0, g7 = 0] = groups;
  if (g0 === 0 && g1 === 0 && g2 === 0 && g3 === 0 && g4 === 0 && g5 === 0xffff) {
    return `${g6 >> 8}.${g6 & 255}.${g7 >> 8}.${g7 & 255}`;
  }
  return `${groups
    .slice(0, 4)
    .map((group) => group.toString(16))
    .join(':')}::/64`;
}
