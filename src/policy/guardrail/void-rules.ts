/**
 * Owns the effect of guardrails on groups: whether one forbids a whole direction, and which rules can admit nothing any
 * more.
 */
import type { Addresses, MatchSet, PortMap, PortNode, TransportPolicy } from '../canonical.ts';
import { canonicalize } from '../canonicalize.ts';
import { rulesOf } from '../decide.ts';
import type { EffectivePolicy } from '../effective.ts';
import { Fleet } from '../fleet/fleet.ts';
import { resolvePolicy } from '../fleet/resolve.ts';
import { isAnyPort, ruleAddresses } from '../match.ts';
import { holdsAll, isWholeFamily, mergeRanges, uniteRanges, type RangeSet } from '../range.ts';
import type { Direction, Family, PolicyGroup, StoredRule } from '../rule.ts';

const directions = ['inbound', 'outbound'] as const;

/** The directions of which the guardrail's rules leave nothing, by what they say without their peers. */
export function forbidsEverything(forbid: PolicyGroup): readonly Direction[] {
  const policy = { source: 'list', groups: [], guardrails: { forbid: [forbid], require: [] } } as const;
  const canonical = canonicalize(resolvePolicy(policy, new Fleet()));
  return directions.filter((direction) => {
    const any = canonical[direction].forbid?.any;
    return any !== undefined && isWholeFamily(any.v4, 4) && isWholeFamily(any.v6, 6);
  });
}

/** A rule of a group that admits nothing, because guardrails forbid all that it matches. */
export interface VoidRule {
  readonly group: PolicyGroup;
  readonly direction: Direction;
  readonly index: number;
  readonly rule: StoredRule;
}

export interface VoidRules {
  readonly rules: readonly VoidRule[];
  /** False where there was too much to look at: then further rules may be void. */
  readonly complete: boolean;
}

/** Ranges that are looked at before the search gives up: some tenths of a second. */
const mostWork = 2_000_000;

class TooMuch extends Error {}

/** What is forbidden in one direction, asked rule by rule. */
class Forbidden {
  readonly #forbid: MatchSet;
  #left: number;

  constructor(forbid: MatchSet, most: number) {
    this.#forbid = forbid;
    this.#left = most;
  }

  covers(rule: StoredRule): boolean {
    const addresses = ruleAddresses(rule);
    const families = ([4, 6] as const).filter((family) => setOf(addresses, family).length > 0);
    return (
      families.length > 0 && families.every((family) => this.#coversFamily(rule, setOf(addresses, family), family))
    );
  }

  #coversFamily(rule: StoredRule, set: RangeSet, family: Family): boolean {
    const any = setOf(this.#forbid.any, family);
    const { tcp, udp, echo } = this.#forbid;
    const overTransport = (transport: TransportPolicy): boolean => this.#coversPorts(rule, set, transport, family, any);
    switch (rule.ip_protocol) {
      case 'icmp':
      case 'icmpv6':
        return this.#holds(uniteRanges(any, setOf(echo, family)), set);
      case 'tcp':
        return overTransport(tcp);
      case 'udp':
        return overTransport(udp);
      case 'ipv4':
      case 'ipv6':
        return isAnyPort(rule) ? this.#holds(any, set) : overTransport(tcp) && overTransport(udp);
      default:
        return rule.ip_protocol satisfies never;
    }
  }

  /** Port by port, where what is forbidden changes. */
  #coversPorts(rule: StoredRule, set: RangeSet, transport: TransportPolicy, family: Family, any: RangeSet): boolean {
    const everyPort = uniteRanges(any, setOf(transport.anyPort, family));
    if (this.#holds(everyPort, set)) return true;
    if (isAnyPort(rule)) return false;
    const nodes = nodesOf(transport.ports);
    const borders = nodes
      .flatMap((node) => bordersOf(node, family))
      .filter((port) => port > rule.from_port && port <= rule.to_port);
    return [rule.from_port, ...new Set(borders)].every((port) => {
      const there = mergeRanges([...everyPort, ...nodes.flatMap((node) => [...setAt(node, port, family)])]);
      this.#spend(there.length);
      return this.#holds(there, set);
    });
  }

  #holds(forbidden: RangeSet, set: RangeSet): boolean {
    this.#spend(forbidden.length + set.length);
    return holdsAll(forbidden, set);
  }

  #spend(work: number): void {
    this.#left -= work;
    if (this.#left < 0) throw new TooMuch();
  }
}

const setOf = ({ v4, v6 }: Pick<Addresses, 'v4' | 'v6'>, family: Family): RangeSet => (family === 4 ? v4 : v6);

const nodesOf = (ports: PortMap): readonly PortNode[] =>
  ports.kind === 'intervals' ? ports.intervals : ports.layers.flat();

const portedAt = (node: PortNode, family: Family) =>
  'shares' in node ? node.shares.flatMap((share) => (family === 4 ? share.v4 : share.v6)) : [];

/** The ports at which the node begins or ends to forbid something. */
const bordersOf = (node: PortNode, family: Family): number[] =>
  'addresses' in node ? [node.from, node.to + 1] : portedAt(node, family).flatMap(({ from, to }) => [from, to + 1]);

function setAt(node: PortNode, port: number, family: Family): RangeSet {
  if (port < node.from || port > node.to) return [];
  if ('addresses' in node) return setOf(node.addresses, family);
  return portedAt(node, family).filter(({ from, to }) => from <= port && port <= to);
}

/**
 * The rules of groups that guardrails make void, in a policy with resolved peers. Rules that match no address are not
 * included.
 */
export function voidRules(policy: EffectivePolicy, most: number = mostWork): VoidRules {
  const canonical = canonicalize({ ...policy, groups: [] });
  const rules: VoidRule[] = [];
  try {
    for (const direction of directions) {
      const { forbid } = canonical[direction];
      if (forbid === undefined) continue;
      const forbidden = new Forbidden(forbid, most);
      for (const group of policy.groups) {
        for (const [index, rule] of rulesOf(group, direction).entries()) {
          if (forbidden.covers(rule)) rules.push({ group, direction, index, rule });
        }
      }
    }
  } catch (error) {
    if (!(error instanceof TooMuch)) throw error;
    return { rules, complete: false };
  }
  return { rules, complete: true };
}
