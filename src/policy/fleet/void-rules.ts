/**
 * Owns the question which rules guardrails make void: rules of which everything is forbidden, and guardrails that leave nothing of a direction.
 * Exact, and without knowing who the devices are: a peer is covered by a peer that names all of the same devices, always.
 */
import { rulesOf } from '../decide.ts';
import type { GroupId } from '../ids.ts';
import { isAnyPort, ruleRanges } from '../match.ts';
import { holdsAll, isWholeFamily, uniteRanges, type RangeSet } from '../range.ts';
import type { Direction, Peer, PolicyGroup, StoredRule } from '../rule.ts';

export interface VoidRule {
  readonly direction: Direction;
  readonly index: number;
  /** The guardrails that forbid it, together. */
  readonly guardrails: readonly GroupId[];
}

/** More look-ups than this are not made: then a rule counts as not void. */
const mostWork = 1_000_000;

type Transport = 'tcp' | 'udp';

/** Part of a rule: packets of one sort. `every` is each protocol of a family, ported or not. */
interface Part {
  readonly sort: 'every' | 'echo' | Transport;
  readonly from: number;
  readonly to: number;
}

const lastPort = 65_535;

function partsOf(rule: StoredRule): readonly Part[] {
  const all = { from: 0, to: lastPort };
  const ports = isAnyPort(rule) ? all : { from: rule.from_port, to: rule.to_port };
  switch (rule.ip_protocol) {
    case 'tcp':
    case 'udp':
      return [{ sort: rule.ip_protocol, ...ports }];
    case 'icmp':
    case 'icmpv6':
      return [{ sort: 'echo', ...all }];
    case 'ipv4':
    case 'ipv6':
      if (isAnyPort(rule)) return [{ sort: 'every', ...all }];
      return [
        { sort: 'tcp', ...ports },
        { sort: 'udp', ...ports },
      ];
    default:
      return rule.ip_protocol satisfies never;
  }
}

/** Whom a rule names: ranges of both families, and peers. */
interface Named {
  readonly v4: RangeSet;
  readonly v6: RangeSet;
  readonly peers: readonly Peer[];
  /** Which families its peers stand for. */
  readonly families: readonly ('v4' | 'v6')[];
}

function named(rule: StoredRule): Named {
  const { v4, v6 } = ruleRanges(rule);
  const { ip_protocol, peers = [] } = rule;
  const only = ip_protocol === 'icmp' || ip_protocol === 'ipv4' ? 'v4' : 'v6';
  return { v4, v6, peers, families: ip_protocol === 'tcp' || ip_protocol === 'udp' ? ['v4', 'v6'] : [only] };
}

/** Whether whoever is named by `inner` is named by `outer`, at every moment. */
function includes(outer: Peer, inner: Peer): boolean {
  if ('all_devices' in outer) return true;
  if ('device_id' in outer) return 'device_id' in inner && inner.device_id === outer.device_id;
  return 'labels' in inner && outer.labels.every((label) => inner.labels.includes(label));
}

function coveredAt(rule: Named, forbids: readonly Named[]): boolean {
  for (const family of ['v4', 'v6'] as const) {
    const ranges = forbids.reduce<RangeSet>((all, forbid) => uniteRanges(all, forbid[family]), []);
    if (!holdsAll(ranges, rule[family])) return false;
    if (!rule.families.includes(family) || rule.peers.length === 0) continue;
    if (isWholeFamily(ranges, family === 'v4' ? 4 : 6)) continue;
    const peers = forbids.flatMap((forbid) => (forbid.families.includes(family) ? forbid.peers : []));
    if (!rule.peers.every((inner) => peers.some((outer) => includes(outer, inner)))) return false;
  }
  return true;
}

interface Forbid {
  readonly id: GroupId;
  readonly parts: readonly Part[];
  readonly named: Named;
}

const covers = ({ sort, from, to }: Part, asked: Part): boolean =>
  (sort === 'every' || sort === asked.sort) && from <= asked.from && asked.to <= to;

/** Looks at each stretch of ports in which the same forbids apply. */
function isCovered(part: Part, rule: Named, forbids: readonly Forbid[]): boolean {
  const cuts = new Set([part.from, part.to + 1]);
  for (const forbid of forbids) {
    for (const { sort, from, to } of forbid.parts) {
      if (sort !== part.sort) continue;
      for (const cut of [from, to + 1]) if (cut > part.from && cut <= part.to) cuts.add(cut);
    }
  }
  const edges = [...cuts].toSorted((a, b) => a - b);
  const size = forbids.reduce((sum, { named: { v4, v6, peers } }) => sum + v4.length + v6.length + peers.length + 1, 0);
  if (size * edges.length > mostWork) return false;
  return edges.slice(0, -1).every((from, index) => {
    const stretch = { ...part, from, to: (edges[index + 1] ?? 0) - 1 };
    const there = forbids.filter(({ parts }) => parts.some((one) => covers(one, stretch)));
    return coveredAt(
      rule,
      there.map((forbid) => forbid.named),
    );
  });
}

const touches = (forbid: Forbid, parts: readonly Part[]): boolean =>
  forbid.parts.some((one) =>
    parts.some(({ sort, from, to }) => (one.sort === 'every' || one.sort === sort) && one.from <= to && from <= one.to),
  );

const forbidsOf = (guardrails: readonly PolicyGroup[], direction: Direction): readonly Forbid[] =>
  guardrails.flatMap((group) =>
    rulesOf(group, direction).map((rule) => ({ id: group.id, parts: partsOf(rule), named: named(rule) })),
  );

/** The rules of a group of which everything is forbidden by these guardrails together. */
export function voidRules(group: PolicyGroup, guardrails: readonly PolicyGroup[]): readonly VoidRule[] {
  return (['inbound', 'outbound'] as const).flatMap((direction) => {
    const forbids = forbidsOf(guardrails, direction);
    if (forbids.length === 0) return [];
    return rulesOf(group, direction).flatMap((rule, index): VoidRule[] => {
      const parts = partsOf(rule);
      const near = forbids.filter((forbid) => touches(forbid, parts));
      const asked = named(rule);
      if (near.length === 0 || !parts.every((part) => isCovered(part, asked, near))) return [];
      return [{ direction, index, guardrails: [...new Set(near.map(({ id }) => id))] }];
    });
  });
}

/** The directions of which these rules, forbidden, leave nothing: every protocol from every address of both families. */
export function forbidsEverything(group: PolicyGroup): readonly Direction[] {
  return (['inbound', 'outbound'] as const).filter((direction) => {
    const whole = rulesOf(group, direction).filter((rule) => partsOf(rule).some(({ sort }) => sort === 'every'));
    const ranges = whole.map(named);
    return (['v4', 'v6'] as const).every((family) =>
      isWholeFamily(
        ranges.reduce<RangeSet>((all, one) => uniteRanges(all, one[family]), []),
        family === 'v4' ? 4 : 6,
      ),
    );
  });
}
