/**
 * Owns the evaluation of policy tests: passing, failing or vacuous, and the pair that fails.
 *
 * A pair is a device or address of `from` and another one of `to` that have addresses of a common family; a device and itself are no pair. `allow`
 * passes when each pair may connect between all their addresses of the same family, `refuse` when no pair may between any. A connection needs
 * both ends: the outbound policy of the one and the inbound policy of the other. An address has no policy, so there the other end decides.
 */
import { parseAddress, type Address } from '../address.ts';
import type { Direction, Family } from '../rule.ts';
import { AdmittedAddresses } from './admitted.ts';
import { areBitsWithin, eachBit, hasBit, haveCommonBit, keepCommonBits, removeAllBits, type Bits } from './bits.ts';
import { failureOf, type FailedPair } from './failure.ts';
import { FleetIndex, noDevice, type End, type EndPart } from './fleet-index.ts';
import type { PolicySnapshot } from '../snapshot/snapshot.ts';
import type { PolicyTest, TestEnd, TestFailure, TestResult, TestState } from './policy-test.ts';

const bothFamilies = [4, 6] as const;

function addressOf(end: TestEnd): Address | undefined {
  if (!('address' in end)) return undefined;
  const address = parseAddress(end.address);
  return 'fault' in address ? undefined : address;
}

const common = (a: Bits, b: Bits): Bits => {
  const bits = Uint32Array.from(a);
  keepCommonBits(bits, b);
  return bits;
};

class Evaluation {
  readonly #fleet: FleetIndex;
  readonly #admitted: AdmittedAddresses;

  constructor(snapshot: PolicySnapshot, tests: readonly PolicyTest[]) {
    const further = tests.flatMap(({ from, to }) => [addressOf(from) ?? [], addressOf(to) ?? []].flat());
    this.#fleet = new FleetIndex(snapshot, further);
    this.#admitted = new AdmittedAddresses(this.#fleet);
  }

  /** The pair that fails the test, or its state where none does. */
  run(test: PolicyTest): FailedPair | 'passing' | 'vacuous' {
    const [from, to] = [this.#endOf(test.from), this.#endOf(test.to)];
    if (!bothFamilies.some((family) => hasPair(from, to, family))) return 'vacuous';
    return (test.expect === 'allow' ? this.#refused(test, from, to) : this.#allowed(test, from, to)) ?? 'passing';
  }

  get changesAt(): number {
    return this.#fleet.changesAt;
  }

  failureOf(test: PolicyTest, pair: FailedPair): TestFailure {
    return failureOf(test, pair, this.#fleet);
  }

  #endOf(end: TestEnd): End {
    if (!('address' in end)) return this.#fleet.endOf(end);
    const address = addressOf(end);
    return address === undefined
      ? { parts: [], slots: new Uint32Array(), families: none }
      : this.#fleet.endOfAddress(address);
  }

  /** A pair that may not connect. */
  #refused(test: PolicyTest, from: End, to: End): FailedPair | undefined {
    for (const part of from.parts) {
      const found = this.#refusedBy(test, part, to, 'outbound');
      if (found !== undefined) {
        const { own, ownSlot, far, farSlot } = found;
        return { from: own, fromSlot: ownSlot, to: far, toSlot: farSlot, direction: 'outbound' };
      }
    }
    for (const part of to.parts) {
      const found = this.#refusedBy(test, part, from, 'inbound');
      if (found !== undefined) {
        const { own, ownSlot, far, farSlot } = found;
        return { from: far, fromSlot: farSlot, to: own, toSlot: ownSlot, direction: 'inbound' };
      }
    }
    return undefined;
  }

  #refusedBy(test: PolicyTest, part: EndPart, far: End, direction: Direction): Refused | undefined {
    if (part.cohort === undefined) return undefined;
    const admitted = this.#admitted.of(part.cohort, direction, test);
    if (areBitsWithin(far.slots, admitted)) return undefined;
    const missing = Uint32Array.from(far.slots);
    removeAllBits(missing, admitted);
    for (const farSlot of eachBit(missing)) {
      const { family } = this.#fleet.addresses.addressAt(farSlot);
      for (const farPlace of this.#ownersIn(far.parts, farSlot)) {
        const own = part.devices.find((place) => place !== farPlace && this.#fleet.hasFamily(place, family));
        if (own === undefined) continue;
        return { own, ownSlot: this.#slotOf(own, family), far: farPlace, farSlot };
      }
    }
    return undefined;
  }

  /** A pair that may connect. */
  #allowed(test: PolicyTest, from: End, to: End): FailedPair | undefined {
    const reach = (end: End, far: End, direction: Direction): readonly Reach[] =>
      end.parts.flatMap((part) => {
        const admitted = part.cohort && this.#admitted.of(part.cohort, direction, test);
        if (admitted === undefined) return [{ part, admitted: far.slots }];
        return haveCommonBit(far.slots, admitted) ? [{ part, admitted }] : [];
      });
    // Inbound first: where nothing should connect, that is mostly where it is refused.
    const inbound = reach(to, from, 'inbound');
    if (inbound.length === 0) return undefined;
    for (const one of reach(from, to, 'outbound')) {
      for (const other of inbound) {
        if (!haveCommonBit(one.part.slots, other.admitted) || !haveCommonBit(other.part.slots, one.admitted)) continue;
        const [sources, targets] = [common(one.part.slots, other.admitted), common(other.part.slots, one.admitted)];
        const pair = this.#pairOf(one.part, sources, other.part, targets);
        if (pair !== undefined) return { ...pair, direction: other.part.cohort === undefined ? 'outbound' : 'inbound' };
      }
    }
    return undefined;
  }

  /** Two that are not the same device, with addresses of these of one family. */
  #pairOf(from: EndPart, sources: Bits, to: EndPart, targets: Bits): Omit<FailedPair, 'direction'> | undefined {
    for (const family of bothFamilies) {
      const of = this.#fleet.addresses.families[family];
      if (!haveCommonBit(sources, of) || !haveCommonBit(targets, of)) continue;
      for (const fromSlot of eachBit(common(sources, of))) {
        for (const source of this.#ownersIn([from], fromSlot)) {
          for (const toSlot of eachBit(common(targets, of))) {
            const target = this.#ownersIn([to], toSlot).find((place) => place !== source || place === noDevice);
            if (target !== undefined) return { from: source, fromSlot, to: target, toSlot };
          }
        }
      }
    }
    return undefined;
  }

  /** Those of the parts that have the address. */
  #ownersIn(parts: readonly EndPart[], slot: number): readonly number[] {
    return parts
      .filter(({ slots }) => hasBit(slots, slot))
      .flatMap((part): readonly number[] =>
        part.cohort === undefined
          ? part.devices
          : this.#fleet
              .ownersOf(slot)
              .filter((place) => this.#fleet.cohortOf(place) === part.cohort && this.#isIn(part, place)),
      );
  }

  #isIn({ devices }: EndPart, place: number): boolean {
    let [low, high] = [0, devices.length - 1];
    while (low <= high) {
      const middle = (low + high) >>> 1;
      const at = devices[middle] as number;
      if (at === place) return true;
      if (at < place) low = middle + 1;
      else high = middle - 1;
    }
    return false;
  }

  #slotOf(place: number, family: Family): number {
    const { addresses } = this.#fleet;
    return this.#fleet.slotsOf(place).find((slot) => addresses.addressAt(slot).family === family) ?? 0;
  }
}

/** A part of an end, and which far addresses its policy admits. */
interface Reach {
  readonly part: EndPart;
  readonly admitted: Bits;
}

interface Refused {
  readonly own: number;
  readonly ownSlot: number;
  readonly far: number;
  readonly farSlot: number;
}

const none = { 4: { count: 0, first: noDevice }, 6: { count: 0, first: noDevice } } as const;

/** Whether there are two with addresses of the family that are not the same device. */
function hasPair(from: End, to: End, family: Family): boolean {
  const [a, b] = [from.families[family], to.families[family]];
  if (a.count === 0 || b.count === 0) return false;
  return a.count > 1 || b.count > 1 || a.first !== b.first;
}

/** The states of all tests, in their order, and on demand why one fails: of many failures, few are looked at. */
export interface TestStates {
  readonly states: readonly TestState[];
  /** Until when they hold if nothing is written, in milliseconds since 1970. */
  readonly changesAt: number;
  /** Of a test that fails. */
  readonly failureOf: (index: number) => TestFailure;
}

export function testStates(snapshot: PolicySnapshot, tests: readonly PolicyTest[]): TestStates {
  const evaluation = new Evaluation(snapshot, tests);
  const pairs = tests.map((test) => evaluation.run(test));
  return {
    changesAt: evaluation.changesAt,
    states: pairs.map((pair) => (typeof pair === 'string' ? pair : 'failing')),
    failureOf(index) {
      const [test, pair] = [tests[index], pairs[index]];
      if (test === undefined || pair === undefined || typeof pair === 'string')
        throw new Error('this test does not fail');
      return evaluation.failureOf(test, pair);
    },
  };
}

/** The result of each test, in their order. */
export function evaluateTests(snapshot: PolicySnapshot, tests: readonly PolicyTest[]): readonly TestResult[] {
  const { states, failureOf: explain } = testStates(snapshot, tests);
  return states.map((each, index) => (each === 'failing' ? { state: each, failure: explain(index) } : { state: each }));
}
