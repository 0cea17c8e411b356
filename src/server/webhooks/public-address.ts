/** Owns the difference between public addresses and addresses of the server's own networks. */
import { BlockList, isIP } from 'node:net';

/** Everything that is not the public internet: this machine, its networks, link-local addresses such as those of cloud metadata, what is reserved. */
const inner = new BlockList();
for (const [address, length] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
] as const) {
  inner.addSubnet(address, length, 'ipv4');
}

/** Of IPv6 only what is given out for the internet, without the parts that lead to IPv4 addresses or are for documents. */
const given = new BlockList();
given.addSubnet('2000::', 3, 'ipv6');
const tunnels = new BlockList();
for (const [address, length] of [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
] as const) {
  tunnels.addSubnet(address, length, 'ipv6');
}

export function isPublicAddress(address: string): boolean {
  switch (isIP(address)) {
    case 4:
      return !inner.check(address, 'ipv4');
    case 6:
      return given.check(address, 'ipv6') && !tunnels.check(address, 'ipv6');
    default:
      return false;
  }
}
