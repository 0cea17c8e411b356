/** Owns the digest of a policy: 64 hex digits that two programs compare to know that they mean the same rules. */
import type { Addresses, CanonicalPolicy, DirectionPolicy, MatchSet, PortMap, TransportPolicy } from '../canonical.ts';
import { UnresolvedPeers } from '../match.ts';
import { isWholeFamily, type RangeSet } from '../range.ts';
import type { Family } from '../rule.ts';
import { emptyFingerprint, printFingerprint, setFingerprint } from './fingerprint.ts';
import { portSteps } from './port-sweep.ts';
import { sha256Hex } from './sha256.ts';

const families: readonly Family[] = [4, 6];

/** Families of which everything is matched already: what else is said of them says nothing. */
type Whole = ReadonlySet<Family>;

const rangesOf = ({ v4, v6 }: Addresses, family: Family): RangeSet => (family === 4 ? v4 : v6);

const wholeOf = (addresses: Addresses, before: Whole = new Set()): Whole =>
  new Set(families.filter((family) => before.has(family) || isWholeFamily(rangesOf(addresses, family), family)));

function addressesText(addresses: Addresses, whole: Whole): string {
  if (addresses.names !== undefined) throw new UnresolvedPeers();
  const text = (family: Family): string =>
    printFingerprint(whole.has(family) ? emptyFingerprint : setFingerprint(family, rangesOf(addresses, family)));
  return families.map(text).join(' ');
}

function stepsText(ports: PortMap, family: Family): string {
  return portSteps(ports, family)
    .map(({ port, addresses }) => `${port}:${printFingerprint(addresses)}`)
    .join(',');
}

/** Everything may be said by name, or by admitting every address: the packets are the same. */
const isEverything = ({ any }: MatchSet): boolean => isWholeFamily(any.v4, 4) && isWholeFamily(any.v6, 6);

/** Rules about both protocols are one object: it is looked at once. */
class Printer {
  readonly #steps = new Map<PortMap, readonly string[]>();

  #ports(ports: PortMap, whole: Whole): string {
    const steps = this.#steps.get(ports) ?? families.map((family) => stepsText(ports, family));
    this.#steps.set(ports, steps);
    return families.map((family, i) => (whole.has(family) ? '' : steps[i])).join(' ');
  }

  #transport({ anyPort, ports }: TransportPolicy, whole: Whole): string {
    return `any ${addressesText(anyPort, whole)} ports ${this.#ports(ports, wholeOf(anyPort, whole))}`;
  }

  #matches({ any, echo, tcp, udp }: MatchSet): string {
    const whole = wholeOf(any);
    const [ip, ping] = [addressesText(any, new Set()), addressesText(echo, whole)];
    return `ip ${ip}\necho ${ping}\ntcp ${this.#transport(tcp, whole)}\nudp ${this.#transport(udp, whole)}\n`;
  }

  direction(name: string, policy: DirectionPolicy): string {
    const forbid = policy.forbid === undefined ? '' : `forbid\n${this.#matches(policy.forbid)}`;
    const admitted = policy.kind === 'open' || isEverything(policy) ? 'open\n' : `closed\n${this.#matches(policy)}`;
    return `${name} ${admitted}${forbid}`;
  }
}

/**
 * SHA-256 over the canonical form: over the addresses, protocols and ports that it matches, not over how they were cut
 * into intervals, layers or sets, nor to whom packets are counted. Address sets stand in it by their fingerprints.
 */
export function policyDigest({ inbound, outbound }: CanonicalPolicy): string {
  const printer = new Printer();
  const text = `policy 1\n${printer.direction('inbound', inbound)}${printer.direction('outbound', outbound)}`;
  return sha256Hex(text);
}

/** Whether both match the same packets, whatever form they have. */
export const sameDigest = (a: CanonicalPolicy, b: CanonicalPolicy): boolean => policyDigest(a) === policyDigest(b);
