/** Owns the stored form of sums: some hundred of them in one block of bytes, and a filter that tells which blocks cannot hold what a reader looks for. */
import { hasPort } from '../../../policy/flow/protocol.ts';
import type { FlowFilter, FlowSum } from '../data/flows.ts';

/** Sums of one block. More would fill the filter, so that it would rule out nothing. */
export const sumsPerBlock = 256;

const outbound = 1;
const admitted = 2;
const isVersion6 = 4;
const headBytes = 4;
const packetBytes = 6;
/** A sum holds no more, whatever devices say. */
const mostStored = 2 ** (8 * packetBytes) - 1;

const farBytes = (flags: number): number => ((flags & isVersion6) === 0 ? 4 : 16);
const flagsOf = ({ direction, verdict, family }: FlowSum): number =>
  (direction === 'out' ? outbound : 0) | (verdict === 'admitted' ? admitted : 0) | (family === 6 ? isVersion6 : 0);

const low = 0xffff_ffff_ffff_ffffn;

export function writeBlock(sums: readonly FlowSum[]): Buffer {
  const size = sums.reduce((bytes, { family }) => bytes + headBytes + (family === 6 ? 16 : 4) + packetBytes, 0);
  const block = Buffer.allocUnsafe(size);
  let at = 0;
  for (const sum of sums) {
    block[at] = flagsOf(sum);
    block[at + 1] = sum.protocol;
    block.writeUInt16BE(sum.port, at + 2);
    at += headBytes;
    if (sum.family === 4) {
      at = block.writeUInt32BE(Number(sum.far), at);
    } else {
      at = block.writeBigUInt64BE(sum.far >> 64n, at);
      at = block.writeBigUInt64BE(sum.far & low, at);
    }
    at = block.writeUIntBE(sum.packets, at, packetBytes);
  }
  return block;
}

type Wanted = (block: Buffer, at: number, flags: number) => boolean;

/** Judges a sum by its bytes: nearly all that are looked at are not wanted. */
function judgeOf({ direction, verdict, protocol, port, far }: FlowFilter): Wanted {
  const mask = (direction === undefined ? 0 : outbound) | (verdict === undefined ? 0 : admitted);
  const flags = (direction === 'out' ? outbound : 0) | (verdict === 'admitted' ? admitted : 0);
  return (block, at, given) => {
    if ((given & mask) !== flags) return false;
    if (protocol !== undefined && block[at + 1] !== protocol) return false;
    if (port !== undefined && (block.readUInt16BE(at + 2) !== port || !hasPort(block[at + 1] ?? 0))) return false;
    if (far === undefined) return true;
    const family = (given & isVersion6) === 0 ? 4 : 6;
    const address = farAt(block, at, given);
    return far.some((range) => range.family === family && range.first <= address && address <= range.last);
  };
}

const farAt = (block: Buffer, at: number, flags: number): bigint =>
  (flags & isVersion6) === 0
    ? BigInt(block.readUInt32BE(at + headBytes))
    : (block.readBigUInt64BE(at + headBytes) << 64n) | block.readBigUInt64BE(at + headBytes + 8);

const sumAt = (block: Buffer, at: number, packets: number): FlowSum => {
  const flags = block[at] ?? 0;
  return {
    direction: (flags & outbound) === 0 ? 'in' : 'out',
    verdict: (flags & admitted) === 0 ? 'refused' : 'admitted',
    family: (flags & isVersion6) === 0 ? 4 : 6,
    far: farAt(block, at, flags),
    protocol: block[at + 1] ?? 0,
    port: block.readUInt16BE(at + 2),
    packets,
  };
};

/** The sums of a block that the filter lets through, each with its place in the block. */
export function* readBlock(
  block: Buffer,
  filter: FlowFilter = {},
): Generator<{ readonly place: number; readonly sum: FlowSum }, void, undefined> {
  const isWanted = judgeOf(filter);
  for (let at = 0, place = 0; at < block.length; place += 1) {
    const flags = block[at] ?? 0;
    const packetsAt = at + headBytes + farBytes(flags);
    if (isWanted(block, at, flags)) yield { place, sum: sumAt(block, at, block.readUIntBE(packetsAt, packetBytes)) };
    at = packetsAt + packetBytes;
  }
}

/** Bits of a Bloom filter. */
export const filterBits = 2_048;

/** FNV-1a. It need not resist anybody: a collision costs one look into a block. */
function hash(text: string, seed: number): number {
  let value = 0x811c_9dc5 ^ seed;
  for (let at = 0; at < text.length; at += 1) value = Math.imul(value ^ text.charCodeAt(at), 0x0100_0193);
  value = Math.imul(value ^ (value >>> 16), 0x85eb_ca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2_ae35);
  return ((value ^ (value >>> 16)) >>> 0) % filterBits;
}

class BlockFilter {
  readonly #bits = Buffer.alloc(filterBits / 8);

  add(key: string): void {
    this.#set(hash(key, 0));
    this.#set(hash(key, 0x9e37_79b9));
  }

  #set(bit: number): void {
    this.#bits[bit >> 3] = (this.#bits[bit >> 3] ?? 0) | (0x80 >> (bit & 7));
  }

  /** As PostgreSQL reads a `bit` in hexadecimal. */
  get text(): string {
    return `x${this.#bits.toString('hex')}`;
  }
}

/** A number is written in a tenth of the time of a big integer. */
const farKey = (family: number, far: bigint): string => `f${family}/${family === 4 ? Number(far) : far}`;
const stateKey = (direction: string, verdict: string): string => `s${direction}/${verdict}`;
const protocolKey = (protocol: number): string => `p${protocol}`;
const portKey = (port: number): string => `o${port}`;

/** What a block holds, so that a look for something else need not open it. */
export function blockFilter(sums: readonly FlowSum[]): string {
  const filter = new BlockFilter();
  // Many sums have the same of everything but the far end.
  const added = new Set<number>();
  for (const sum of sums) {
    const { direction, verdict, family, far, protocol, port } = sum;
    filter.add(farKey(family, far));
    const rest = flagsOf(sum) * 0x100_0000 + protocol * 0x1_0000 + port;
    if (added.has(rest)) continue;
    added.add(rest);
    filter.add(stateKey(direction, verdict));
    filter.add(stateKey(direction, ''));
    filter.add(stateKey('', verdict));
    filter.add(protocolKey(protocol));
    if (hasPort(protocol)) filter.add(portKey(port));
  }
  return filter.text;
}

/** Far ends that a search of filters looks for at most. */
const mostWanted = 2;

/** The bits that a block must have to hold anything wanted; undefined: any block may. One text for each far end that is asked for. */
export function wantedBits({ direction, verdict, protocol, port, far }: FlowFilter): readonly string[] | undefined {
  const common = [
    ...(direction === undefined && verdict === undefined ? [] : [stateKey(direction ?? '', verdict ?? '')]),
    ...(protocol === undefined ? [] : [protocolKey(protocol)]),
    ...(port === undefined ? [] : [portKey(port)]),
  ];
  const isFew = far !== undefined && far.length <= mostWanted && far.every(({ first, last }) => first === last);
  const single = isFew ? far : undefined;
  if (single?.length === 0 || (common.length === 0 && single === undefined)) return undefined;
  const textOf = (keys: readonly string[]): string => {
    const filter = new BlockFilter();
    for (const key of keys) filter.add(key);
    return filter.text;
  };
  return single === undefined
    ? [textOf(common)]
    : single.map(({ family, first }) => textOf([...common, farKey(family, first)]));
}

/** Gives the name of each sum, the bytes of its traffic, and its packets: to read each sum would cost twenty times as much. */
function eachSum(block: Buffer, take: (name: string, packets: number) => void): void {
  for (let at = 0; at < block.length;) {
    const packetsAt = at + headBytes + farBytes(block[at] ?? 0);
    take(block.toString('latin1', at, packetsAt), block.readUIntBE(packetsAt, packetBytes));
    at = packetsAt + packetBytes;
  }
}

/** The traffic of this name. */
const sumNamed = (name: string, packets: number): FlowSum => sumAt(Buffer.from(name, 'latin1'), 0, packets);

/** The sums of all blocks, the same traffic as one sum, in the order in which it first comes. Small steps: a busy device has thousands of blocks in an hour. */
export function* addUp(blocks: readonly Buffer[]): Generator<void, readonly FlowSum[]> {
  const added = new Map<string, number>();
  for (const block of blocks) {
    eachSum(block, (name, packets) => added.set(name, Math.min((added.get(name) ?? 0) + packets, mostStored)));
    yield;
  }
  const sums: FlowSum[] = [];
  for (const [name, packets] of added) {
    sums.push(sumNamed(name, packets));
    if (sums.length % sumsPerBlock === 0) yield;
  }
  return sums;
}

export function inBlocks(sums: readonly FlowSum[]): readonly (readonly FlowSum[])[] {
  const blocks: (readonly FlowSum[])[] = [];
  for (let from = 0; from < sums.length; from += sumsPerBlock) blocks.push(sums.slice(from, from + sumsPerBlock));
  return blocks;
}
