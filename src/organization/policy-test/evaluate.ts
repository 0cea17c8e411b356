/**
 * Owns the evaluation of policy tests: passing, failing or vacuous, and the pair that fails.
 *
 * A pair is a device or address of `from` and another one of `to` that have addresses of a common family; a device and itself are no pair. `allow`
 * passes when each pair may connect between all their addresses of the same family, `refuse` when no pair may between any. A connection needs
 * both ends: the outbound policy of the one and the inbound policy of the other. An address has no policy, so there the other end decides. A test must
 * hold as things are and as they will be when every trial has ended.
 *
 * The price grows with the devices, the tests and the policies that a test is about: devices with the same policy are judged together.
 */
import { parseAddress, type Address } from '../../policy/address.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { peerKey } from '../../policy/fleet/selector.ts';
import type { Direction, Family } from '../../policy/rule.ts';
import type { Organization } from '../organization.ts';
import { AddressIndex } from './address-index.ts';
import { AdmittedAddresses } from './admitted.ts';
import { cohortsOf, type Cohort, type Cohorts } from './cohorts.ts';
import { Effort, TestsTooCostly } from './effort.ts';
import { Ends, noDevice, noEnd, type End, type EndPart } from './ends.ts';
import { failureOf, type FailedPair, type PairEnd } from './failure.ts';
import { FleetIndex } from './fleet-index.ts';
import { findPair, type Reach } from './pairs.ts';
import { PortClasses } from './port-classes.ts';
import type { PolicyTest, TestEnd, TestResult, TestState } from '../../policy/policy-test/policy-test.ts';
import { eachSlot, slotsBut } from './slot-set.ts';
import { touchedEnds, type TestedFleet } from './touched-ends.ts';

const bothFamilies = [4, 6] as const;

function addressOf(end: TestEnd): Address | undefined {
  if (!('address' in end)) return undefined;
  const address = parseAddress(end.address);
  return 'fault' in address ? undefined : address;
}

const keyOf = (end: TestEnd): string => ('address' in end ? end.address : peerKey(end));

/** Whether there are two with addresses of the family that are not the same device. */
function hasPair(from: End, to: End, family: Family): boolean {
  const [a, b] = [from.families[family], to.families[family]];
  if (a.count === 0 || b.count === 0) return false;
  return a.count > 1 || b.count > 1 || a.first !== b.first;
}

/** A pair that fails once a trial has ended: from then on, in milliseconds since 1970. */
interface LaterPair extends FailedPair {
  readonly until: number;
}

/** What a test comes to: its state, or the pair that fails it. */
type Outcome = FailedPair | LaterPair | Exclude<TestState, 'failing'>;

type PolicyOf = (cohort: Cohort) => EffectivePolicy;

const policyNow: PolicyOf = ({ policy }) => policy;
/** As it will be at a moment at which trials have ended, if nothing is written until then. */
const policyFrom =
  (moment: number): PolicyOf =>
  ({ policy, later }) =>
    later.findLast(({ from }) => from <= moment)?.policy ?? policy;

/** The moments at which trials end that devices of these ends take part in, ascending. */
function endsOfTrials(ends: readonly End[]): readonly number[] {
  const moments = ends.flatMap(({ parts }) =>
    parts.flatMap(({ cohort }) => cohort?.later.map(({ from }) => from) ?? []),
  );
  return [...new Set(moments)].toSorted((a, b) => a - b);
}

class Evaluation {
  readonly #fleet: FleetIndex;
  readonly #addresses: AddressIndex;
  readonly #ends: Ends;
  readonly #admitted: AdmittedAddresses;
  readonly #ports: PortClasses;
  readonly #effort: Effort;
  readonly #outcomes = new Map<string, Outcome>();

  constructor(fleet: FleetIndex, { ofKinds, groups }: Cohorts, tests: readonly PolicyTest[], effort: Effort) {
    const further = tests.flatMap(({ from, to }) => [addressOf(from) ?? [], addressOf(to) ?? []].flat());
    this.#fleet = fleet;
    this.#effort = effort;
    const addresses = new AddressIndex(fleet.addresses, further);
    this.#addresses = addresses;
    const ends = new Ends({ fleet, addresses, cohorts: ofKinds, effort });
    this.#ends = ends;
    const ports = new PortClasses(groups, effort);
    this.#ports = ports;
    this.#admitted = new AdmittedAddresses({ ports, addresses, ends, effort });
  }

  /** Tests of the same ends and of ports that no rule tells apart are judged once. */
  *run(test: PolicyTest): Generator<void, Outcome> {
    const { from, to, expect } = test;
    const key = [keyOf(from), keyOf(to), expect, this.#ports.of(test)].join('|');
    let outcome = this.#outcomes.get(key);
    if (outcome === undefined) this.#outcomes.set(key, (outcome = yield* this.#judge(test)));
    return outcome;
  }

  *#judge(test: PolicyTest): Generator<void, Outcome> {
    const [from, to] = [yield* this.#endOf(test.from), yield* this.#endOf(test.to)];
    this.#effort.take(16);
    if (!bothFamilies.some((family) => hasPair(from, to, family))) return 'vacuous';
    const pair = yield* this.#failingPair(test, from, to, policyNow);
    return pair ?? (yield* this.#afterTrials(test, from, to)) ?? 'passing';
  }

  /** A pair that fails once every trial has ended, of a test that passes now; and since when it fails. */
  *#afterTrials(test: PolicyTest, from: End, to: End): Generator<void, LaterPair | undefined> {
    if (!from.isOnTrial && !to.isOnTrial) return undefined;
    const moments = endsOfTrials([from, to]);
    this.#effort.take(4 * (from.parts.length + to.parts.length));
    const last = moments.at(-1);
    let found = last === undefined ? undefined : yield* this.#laterPair(test, from, to, last);
    if (found === undefined) return undefined;
    // It passes before the first moment, and fails from the last one on.
    let [passing, failing] = [-1, moments.length - 1];
    while (failing - passing > 1) {
      const middle = (passing + failing) >>> 1;
      const pair = yield* this.#laterPair(test, from, to, moments[middle] as number);
      if (pair === undefined) passing = middle;
      else [failing, found] = [middle, pair];
    }
    return found;
  }

  *#laterPair(test: PolicyTest, from: End, to: End, until: number): Generator<void, LaterPair | undefined> {
    const pair = yield* this.#failingPair(test, from, to, policyFrom(until));
    return pair && { ...pair, until };
  }

  #failingPair(test: PolicyTest, from: End, to: End, policyOf: PolicyOf): Generator<void, FailedPair | undefined> {
    return test.expect === 'allow' ? this.#refused(test, from, to, policyOf) : this.#allowed(test, from, to, policyOf);
  }

  *#endOf(end: TestEnd): Generator<void, End> {
    if (!('address' in end)) return yield* this.#ends.ofPeer(end);
    const address = addressOf(end);
    return address === undefined ? noEnd : this.#ends.ofAddress(address);
  }

  /** A pair that may not connect. */
  *#refused(test: PolicyTest, from: End, to: End, policyOf: PolicyOf): Generator<void, FailedPair | undefined> {
    for (const direction of ['outbound', 'inbound'] as const) {
      const [own, far] = direction === 'outbound' ? [from, to] : [to, from];
      for (const part of own.parts) {
        const found = yield* this.#refusedBy(test, part, far, direction, policyOf);
        if (found !== undefined) {
          const ends =
            direction === 'outbound' ? { from: found.own, to: found.far } : { from: found.far, to: found.own };
          return { ...ends, direction };
        }
        if (this.#effort.isDue()) yield;
      }
    }
    return undefined;
  }

  *#refusedBy(
    test: PolicyTest,
    part: EndPart,
    far: End,
    direction: Direction,
    policyOf: PolicyOf,
  ): Generator<void, Refused | undefined> {
    if (part.cohort === undefined) return undefined;
    const admitted = yield* this.#admitted.of(policyOf(part.cohort), direction, test, far);
    if (admitted.isAll) return undefined;
    for (const farSlot of eachSlot(slotsBut(far.slots, admitted.slots))) {
      const address = this.#addresses.addressAt(farSlot);
      for (const farPlace of this.#ends.ownersIn(far, farSlot)) {
        this.#effort.take(4);
        const own = part.families[address.family].find((place) => place !== farPlace);
        if (own === undefined) continue;
        return { own: this.#deviceEnd(own, address.family), far: this.#pairEnd(farPlace, address) };
      }
    }
    return undefined;
  }

  /** A pair that may connect. */
  *#allowed(test: PolicyTest, from: End, to: End, policyOf: PolicyOf): Generator<void, FailedPair | undefined> {
    // Inbound first: where nothing should connect, that is mostly where it is refused.
    const inbound = yield* this.#reach(test, to, from, 'inbound', policyOf);
    if (inbound.length === 0) return undefined;
    const outbound = yield* this.#reach(test, from, to, 'outbound', policyOf);
    const search = { ends: this.#ends, addresses: this.#addresses, effort: this.#effort };
    const pair = yield* findPair({ from: outbound, to: inbound, ...search });
    if (pair === undefined) return undefined;
    return {
      from: this.#pairEnd(pair.from, this.#addresses.addressAt(pair.fromSlot)),
      to: this.#pairEnd(pair.to, this.#addresses.addressAt(pair.toSlot)),
      direction: pair.target.cohort === undefined ? 'outbound' : 'inbound',
    };
  }

  /** The parts of an end whose policy admits some of the far end. */
  *#reach(
    test: PolicyTest,
    end: End,
    far: End,
    direction: Direction,
    policyOf: PolicyOf,
  ): Generator<void, readonly Reach[]> {
    const reach: Reach[] = [];
    for (const part of end.parts) {
      const admitted = part.cohort && (yield* this.#admitted.of(policyOf(part.cohort), direction, test, far));
      if (admitted === undefined)
        reach.push({ part, admitted: { slots: far.slots, isAll: true, parts: far.partsWithAddress } });
      else if (admitted.slots.at.length > 0) reach.push({ part, admitted });
      if (this.#effort.isDue()) yield;
    }
    return reach;
  }

  #pairEnd(place: number, address: Address): PairEnd {
    const device = this.#fleet.devices[place];
    return place === noDevice || device === undefined ? { address } : { address, id: device.id };
  }

  /** A device by the first of its addresses of the family. */
  #deviceEnd(place: number, family: Family): PairEnd {
    const device = this.#fleet.devices[place];
    const address = device?.identity.addresses.find((each) => each.family === family);
    return this.#pairEnd(place, address ?? { family, value: 0n });
  }
}

interface Refused {
  readonly own: PairEnd;
  readonly far: PairEnd;
}

/** The states of all tests, in their order, and on demand why one fails: of many failures, few are looked at. */
export interface JudgedTests {
  readonly states: readonly TestState[];
  /** Until when they hold if nothing is written, in milliseconds since 1970. */
  readonly changesAt: number;
  readonly resultOf: (index: number) => TestResult;
  /** The price, as `JudgeOptions` counts it. */
  readonly steps: number;
  /** How many of these were done, and not known from before. */
  readonly done: number;
  /** For the judgement after a write. */
  readonly known: KnownTests;
}

/** What is known of an organization's tests at one moment. */
interface KnownTests extends TestedFleet {
  /** By `contentOf`, with the steps that each took. */
  readonly outcomes: ReadonlyMap<string, KnownOutcome>;
}

interface KnownOutcome {
  readonly outcome: Outcome;
  readonly steps: number;
}

/** What of a test decides its outcome. */
const contentOf = ({ from, to, expect, protocol, port = 0 }: PolicyTest): string =>
  [keyOf(from), keyOf(to), expect, protocol, port].join('|');

export interface JudgeOptions {
  /** Steps that the tests may take; without end if absent. Beyond, `TestsTooCostly` is thrown. */
  readonly most?: number;
  /** Of an earlier moment of the same organization: tests that nothing has touched since are not judged again. */
  readonly before?: Pick<JudgedTests, 'known'> | undefined;
}

/** The caller can do other work at each pause. */
export function* judgeTests(
  organization: Organization,
  tests: readonly PolicyTest[],
  { most = Number.POSITIVE_INFINITY, before }: JudgeOptions = {},
): Generator<void, JudgedTests> {
  if (before === undefined) return yield* judgeSince(undefined, organization, tests, new Effort(most, tests));
  try {
    return yield* judgeSince(before.known, organization, tests, new Effort(most, tests));
  } catch (error) {
    if (!(error instanceof TestsTooCostly)) throw error;
    // What tests share is counted with each that was judged at another time: found out anew, the price is exact.
    return yield* judgeSince(undefined, organization, tests, new Effort(most, tests));
  }
}

function* judgeSince(
  known: KnownTests | undefined,
  organization: Organization,
  tests: readonly PolicyTest[],
  effort: Effort,
): Generator<void, JudgedTests> {
  const fleet =
    known?.fleet.source === organization.devices ? known.fleet : yield* FleetIndex.build(organization.devices);
  const knownCohorts = new Map(known?.ofKinds.map((cohort) => [cohort.key, cohort]));
  const cohorts = yield* cohortsOf(organization, fleet, knownCohorts, effort);
  const { ofKinds } = cohorts;
  const isTouched = known && (yield* touchedEnds(known, { fleet, ofKinds }, effort));
  let evaluation: Evaluation | undefined;
  const outcomes: Outcome[] = [];
  const knownNext = new Map<string, KnownOutcome>();
  effort.endTest();
  for (const test of tests) {
    const content = contentOf(test);
    let found = knownNext.get(content);
    if (found === undefined) {
      const isSame = isTouched !== undefined && !isTouched(test.from) && !isTouched(test.to);
      const same = isSame ? known?.outcomes.get(content) : undefined;
      effort.take(4);
      if (same !== undefined) effort.charge(same.steps);
      else evaluation ??= new Evaluation(fleet, cohorts, tests, effort);
      const outcome = same?.outcome ?? (yield* (evaluation as Evaluation).run(test));
      found = { outcome, steps: same?.steps ?? effort.sinceTest };
      knownNext.set(content, found);
    }
    outcomes.push(found.outcome);
    effort.endTest(test);
    if (effort.isDue()) yield;
  }
  const cohortOf = (place: number): Cohort => cohorts.ofKinds[fleet.kindOf[place] as number] as Cohort;
  return {
    steps: effort.price,
    done: effort.taken,
    known: { fleet, ofKinds, outcomes: knownNext },
    states: outcomes.map((outcome) => (typeof outcome === 'string' ? outcome : 'failing')),
    changesAt: cohorts.ofKinds.reduce((least, { changesAt }) => Math.min(least, changesAt), Number.POSITIVE_INFINITY),
    resultOf(index) {
      const [test, outcome] = [tests[index], outcomes[index]];
      if (test === undefined || outcome === undefined) throw new Error('there is no such test');
      if (typeof outcome === 'string') return { state: outcome };
      const until = 'until' in outcome ? outcome.until : undefined;
      const policyOf = until === undefined ? policyNow : policyFrom(until);
      const policyAt = (place: number): EffectivePolicy => policyOf(cohortOf(place));
      return {
        state: 'failing',
        failure: failureOf(test, outcome, { fleet, policyAt }),
        ...(until !== undefined && { until: new Date(until).toISOString() }),
      };
    },
  };
}

function inOnePiece<T>(steps: Generator<void, T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

export const testStates = (organization: Organization, tests: readonly PolicyTest[]): JudgedTests =>
  inOnePiece(judgeTests(organization, tests));

/** The results of these tests. Why one fails takes a look at each rule of a policy. */
export function* resultsOf(
  { resultOf }: JudgedTests,
  indexes: Iterable<number>,
): Generator<void, readonly TestResult[]> {
  const results: TestResult[] = [];
  for (const index of indexes) {
    results.push(resultOf(index));
    yield;
  }
  return results;
}

/** The result of each test, in their order. */
export function* testResults(
  organization: Organization,
  tests: readonly PolicyTest[],
  options?: JudgeOptions,
): Generator<void, readonly TestResult[]> {
  return yield* resultsOf(yield* judgeTests(organization, tests, options), tests.keys());
}

/** In one piece, for callers who serve nobody else. */
export const evaluateTests = (organization: Organization, tests: readonly PolicyTest[]): readonly TestResult[] =>
  inOnePiece(testResults(organization, tests));
