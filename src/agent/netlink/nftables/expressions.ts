/** Owns the kernel's rule expressions over netlink: what a rule loads, how it compares, and what it does on a match. */
import { protocolNumber, type AddressSide, type Verdict } from '../../../nft/ast.ts';
import { familyBits, maskOf } from '../../../nft/blocks.ts';
import type { Family } from '../../../policy/rule.ts';
import { dataAttribute, listElement } from './elements.ts';
import { verdictCode, writeVerdict } from './sets.ts';
import { counterObject, type FilterBatch } from './transaction.ts';

const expressionAttribute = { name: 1, data: 2 } as const;

/** Where what is looked at is put, and compared from. */
const register = 1;
const verdictRegister = 0;

const metaKey = { iif: 4, iifname: 6, oifname: 7, nfproto: 15, l4proto: 16 } as const;
const ctKey = { state: 0, status: 2, destinationPort: 12 } as const;
/** Of the way of a connection's first packet, before any translation. */
const originally = 0;
const header = { network: 1, transport: 2 } as const;
const comparison = { eq: 0, neq: 1, lte: 3, gt: 4, gte: 5 } as const;
type Comparison = keyof typeof comparison;

export const noBits = new Uint8Array(16);
/** Numbers of parts that repeat often, each with room for further distinguishing bits. */
const part = {
  family: 0x1_0000,
  protocol: 0x2_0000,
  address: 0x3_0000,
  block: 0x4_0000,
  ports: 0x5_0000,
  isInSet: 0x6_0000,
  verdictOf: 0x7_0000,
  verdict: 0x8_0000,
} as const;
const familyByte = { 4: 2, 6: 10 } as const;
const addressAt = { 4: { saddr: 12, daddr: 16 }, 6: { saddr: 8, daddr: 24 } } as const;

/** Writes the expressions of one rule, one behind the other. */
export class ExpressionWriter {
  readonly #batch: FilterBatch;

  constructor(batch: FilterBatch) {
    this.#batch = batch;
  }

  meta(key: keyof typeof metaKey): void {
    this.#expression('meta', (batch) => {
      batch.be32(2, metaKey[key]);
      batch.be32(1, register);
    });
  }

  ct(key: keyof typeof ctKey): void {
    this.#expression('ct', (batch) => {
      batch.be32(2, ctKey[key]);
      batch.be32(1, register);
      if (key === 'destinationPort') batch.u8(3, originally);
    });
  }

  payload(base: keyof typeof header, offset: number, length: number): void {
    this.#expression('payload', (batch) => {
      batch.be32(1, register);
      batch.be32(2, header[base]);
      batch.be32(3, offset);
      batch.be32(4, length);
    });
  }

  compare(how: Comparison, bytes: Uint8Array): void {
    this.#compare(how, (batch) => batch.bytes(dataAttribute.value, bytes));
  }

  compareByte(how: Comparison, value: number): void {
    this.#compare(how, (batch) => batch.u8(dataAttribute.value, value));
  }

  comparePort(how: Comparison, port: number): void {
    this.#compare(how, (batch) => batch.be16(dataAttribute.value, port));
  }

  compareAddress(how: Comparison, family: Family, address: bigint): void {
    this.#compare(how, (batch) => batch.address(dataAttribute.value, family, address));
  }

  /** Of an address so many leading bits. */
  block(family: Family, side: AddressSide, bits: number): void {
    this.#batch.again(part.block + addressAt[family][side] * 256 + bits, () => {
      this.address(family, side);
      this.maskAddress(family, bits);
    });
  }

  /** Keeps these bits of what is looked at. */
  mask(bits: Uint8Array): void {
    this.#mask(bits.length, (batch) => batch.bytes(dataAttribute.value, bits));
  }

  maskAddress(family: Family, bits: number): void {
    this.#mask(familyBits(family) / 8, (batch) => batch.address(dataAttribute.value, family, maskOf(family, bits)));
  }

  /** Turns a number of the machine into one of the network, which is compared byte by byte. */
  toNetworkOrder(length: number): void {
    this.#expression('byteorder', (batch) => {
      batch.be32(1, register);
      batch.be32(2, register);
      batch.be32(3, 1);
      batch.be32(4, length);
      batch.be32(5, length);
    });
  }

  isFamily(family: Family): void {
    this.#batch.again(part.family + family, () => {
      this.meta('nfproto');
      this.compareByte('eq', familyByte[family]);
    });
  }

  isProtocol(protocol: number): void {
    this.#batch.again(part.protocol + protocol, () => {
      this.meta('l4proto');
      this.compareByte('eq', protocol);
    });
  }

  address(family: Family, side: AddressSide, length = familyBits(family) / 8): void {
    this.#batch.again(part.address + addressAt[family][side] * 32 + length, () => {
      this.isFamily(family);
      this.payload('network', addressAt[family][side], length);
    });
  }

  ports(transport: 'tcp' | 'udp' | undefined, original: boolean): void {
    this.#batch.again(
      part.ports + (transport === undefined ? 0 : protocolNumber[transport]) * 2 + (original ? 1 : 0),
      () => {
        if (transport !== undefined) this.isProtocol(protocolNumber[transport]);
        if (original) this.ct('destinationPort');
        else this.payload('transport', 2, 2);
      },
    );
  }

  isInSet(set: number): void {
    this.#batch.again(part.isInSet, () =>
      this.#expression('lookup', (batch) => {
        batch.be32(2, register);
        batch.name(1, '__set%d');
        batch.be32(4, 0);
      }),
    );
    this.#batch.replaceBe32(set);
  }

  verdictOf(map: number): void {
    this.#batch.again(part.verdictOf, () =>
      this.#expression('lookup', (batch) => {
        batch.be32(2, register);
        batch.be32(3, verdictRegister);
        batch.name(1, '__map%d');
        batch.be32(4, 0);
      }),
    );
    this.#batch.replaceBe32(map);
  }

  count(counter: string): void {
    this.#expression('objref', (batch) => {
      batch.be32(1, counterObject);
      batch.name(2, counter);
    });
  }

  countBy(map: string): void {
    this.#expression('objref', (batch) => {
      batch.be32(3, register);
      batch.name(4, map);
    });
  }

  verdict(verdict: Verdict): void {
    if ('chain' in verdict) this.#verdict(verdict);
    else this.#batch.again(part.verdict + (verdictCode[verdict.kind] & 0xff), () => this.#verdict(verdict));
  }

  #verdict(verdict: Verdict): void {
    this.#expression('immediate', (batch) => {
      batch.be32(1, verdictRegister);
      writeVerdict(batch, 2, verdict);
    });
  }

  #compare(how: Comparison, value: (batch: FilterBatch) => void): void {
    this.#expression('cmp', (batch) => {
      batch.be32(1, register);
      batch.be32(2, comparison[how]);
      const data = batch.open(3);
      value(batch);
      batch.close(data);
    });
  }

  #mask(length: number, bits: (batch: FilterBatch) => void): void {
    this.#expression('bitwise', (batch) => {
      batch.be32(1, register);
      batch.be32(2, register);
      batch.be32(3, length);
      const kept = batch.open(4);
      bits(batch);
      batch.close(kept);
      const flipped = batch.open(5);
      batch.bytes(dataAttribute.value, noBits.subarray(0, length));
      batch.close(flipped);
    });
  }

  #expression(name: string, data: (batch: FilterBatch) => void): void {
    const batch = this.#batch;
    const element = batch.open(listElement);
    batch.name(expressionAttribute.name, name);
    const inner = batch.open(expressionAttribute.data);
    data(batch);
    batch.close(inner);
    batch.close(element);
  }
}
