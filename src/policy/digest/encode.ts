/**
 * Owns the bytes that a policy is digested from. They depend on what the policy matches and on nothing else, and what it
 * matches can be read from them again: policies that differ for any packet have different bytes.
 *
 * Every number has four bytes, highest first. The order is: `digestForm`; then for inbound and outbound, what is admitted
 * and what is forbidden, each for IPv4 and IPv6, one list of steps; then the list of port sets. Each list begins with its
 * length. A step is an address (4 or 16 bytes) and what is matched from there up to the next step: 2 for every protocol,
 * else 1 or 0 for echo, then the numbers of the TCP and UDP ports. Before the first step nothing is matched. A port set is
 * the numbers of its lower and upper half; 0 is the empty set, 1 the full one, 2 the first set of the list.
 */
import type { CanonicalPolicy, DirectionPolicy, MatchSet } from '../canonical.ts';
import type { Family } from '../rule.ts';
import { ByteWriter } from './byte-writer.ts';
import { digestForm } from './digest-form.ts';
import { PortSets } from './port-sets.ts';
import { everything, sweepAddresses } from './sweep.ts';

const families: readonly Family[] = [4, 6];

class Encoder {
  readonly #writer = new ByteWriter();
  readonly #sets = new PortSets();

  policy({ inbound, outbound }: CanonicalPolicy): Uint8Array {
    this.#writer.number(digestForm);
    this.#direction(inbound);
    this.#direction(outbound);
    const { halves } = this.#sets;
    this.#writer.number(halves.length / 2);
    this.#writer.numbers(halves);
    return this.#writer.bytes;
  }

  #direction(policy: DirectionPolicy): void {
    for (const part of [policy.kind === 'open' ? everything : policy, policy.forbid]) {
      for (const family of families) this.#steps(part, family);
    }
  }

  #steps(part: MatchSet | undefined, family: Family): void {
    const lengthAt = this.#writer.size;
    this.#writer.number(0);
    if (part === undefined) return;
    let length = 0;
    sweepAddresses(part, family, this.#sets, (at, [kind, tcp, udp]) => {
      length += 1;
      this.#writer.address(family, at);
      this.#writer.number(kind);
      this.#writer.number(tcp);
      this.#writer.number(udp);
    });
    this.#writer.numberAt(lengthAt, length);
  }
}

export const encodePolicy = (policy: CanonicalPolicy): Uint8Array => new Encoder().policy(policy);
