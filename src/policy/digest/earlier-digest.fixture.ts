/** Owns a copy of the digest of form 1, which could be forged: the control of the adversary in `forgery.test.ts`. Port trees are left out. */
import type { Addresses, CanonicalPolicy, DirectionPolicy, MatchSet, PortMap, TransportPolicy } from '../canonical.ts';
import { isWholeFamily, type RangeSet } from '../range.ts';
import type { Family } from '../rule.ts';
import { sha256Hex } from './sha256.ts';

/** 128 bits in four lanes. */
type Fingerprint = readonly number[];

function stir(lane: number, word: number): number {
  let k = Math.imul(word, 0xcc9e_2d51);
  k = Math.imul((k << 15) | (k >>> 17), 0x1b87_3593);
  const mixed = lane ^ k;
  return (Math.imul((mixed << 13) | (mixed >>> 19), 5) + 0xe654_6b64) | 0;
}

function settle(lane: number): number {
  let h = lane ^ (lane >>> 16);
  h = Math.imul(h, 0x85eb_ca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2_ae35);
  return h ^ (h >>> 16);
}

function borderFingerprint(family: Family, border: bigint): Fingerprint {
  const words: number[] = [];
  const shifts = family === 4 ? [0n, 32n] : [0n, 32n, 64n, 96n, 128n];
  for (const shift of shifts) words.push(Number((border >> shift) & 0xffff_ffffn) | 0);
  const seeds = [0x9e37_79b9, 0x243f_6a88, 0xb7e1_5162, 0x6a09_e667];
  return seeds.map((seed) => settle(words.reduce(stir, stir(seed, family))));
}

const xor = (a: Fingerprint, b: Fingerprint): Fingerprint => a.map((lane, i) => lane ^ (b[i] ?? 0));

/** The XOR over all borders: what one range adds does not depend on the others. */
export const setFingerprint = (family: Family, ranges: RangeSet): Fingerprint =>
  ranges.reduce<Fingerprint>(
    (sum, { first, last }) => xor(xor(sum, borderFingerprint(family, first)), borderFingerprint(family, last + 1n)),
    [0, 0, 0, 0],
  );

const print = (fingerprint: Fingerprint): string =>
  fingerprint.map((lane) => (lane >>> 0).toString(16).padStart(8, '0')).join('');

const addressesText = ({ v4, v6 }: Addresses): string =>
  `${print(setFingerprint(4, v4))} ${print(setFingerprint(6, v6))}`;

function stepsText(ports: PortMap, family: Family): string {
  if (ports.kind === 'tree') throw new Error('The copy reads no port trees.');
  const none = [0, 0, 0, 0];
  const steps = ports.intervals.flatMap(({ from, to, addresses }, i) => [
    { port: from, set: setFingerprint(family, family === 4 ? addresses.v4 : addresses.v6) },
    ...(ports.intervals[i + 1]?.from === to + 1 ? [] : [{ port: to + 1, set: none }]),
  ]);
  const texts = steps.map(({ port, set }) => ({ port, text: print(set) }));
  return texts
    .filter(({ text }, i) => text !== (texts[i - 1]?.text ?? print(none)))
    .map(({ port, text }) => `${port}:${text}`)
    .join(',');
}

const transportText = ({ anyPort, ports }: TransportPolicy): string =>
  `any ${addressesText(anyPort)} ports ${stepsText(ports, 4)} ${stepsText(ports, 6)}`;

const matchesText = ({ any, echo, tcp, udp }: MatchSet): string =>
  `ip ${addressesText(any)}\necho ${addressesText(echo)}\ntcp ${transportText(tcp)}\nudp ${transportText(udp)}\n`;

function directionText(name: string, policy: DirectionPolicy): string {
  const isOpen = policy.kind === 'open' || (isWholeFamily(policy.any.v4, 4) && isWholeFamily(policy.any.v6, 6));
  const forbid = policy.forbid === undefined ? '' : `forbid\n${matchesText(policy.forbid)}`;
  return `${name} ${isOpen ? 'open\n' : `closed\n${matchesText(policy)}`}${forbid}`;
}

/** As form 1 made it for policies that match no whole family in part. */
export const earlierDigest = ({ inbound, outbound }: CanonicalPolicy): string =>
  sha256Hex(`policy 1\n${directionText('inbound', inbound)}${directionText('outbound', outbound)}`);
