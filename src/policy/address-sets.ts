/** Owns the union of address sets, and each group's share of it. */
import type { Addresses, MatchSet, NamedPeers, Names, Share, TransportPolicy } from './canonical.ts';
import type { GroupId } from './ids.ts';
import { holdsAll, isWholeFamily, mergeRanges, sameRanges, uniteRanges, type Range, type RangeSet } from './range.ts';

type Plain = Pick<Addresses, 'v4' | 'v6'>;

const isNoRange = ({ v4, v6 }: Plain): boolean => v4.length === 0 && v6.length === 0;

export const hasNoAddress = (addresses: Addresses): boolean => isNoRange(addresses) && addresses.names === undefined;

const isNoPort = ({ anyPort, ports }: TransportPolicy): boolean =>
  hasNoAddress(anyPort) && (ports.kind === 'intervals' ? ports.intervals : ports.layers).length === 0;

/** Whether no packet whatever is matched. */
export const matchesNothing = ({ any, echo, tcp, udp }: MatchSet): boolean =>
  hasNoAddress(any) && hasNoAddress(echo) && isNoPort(tcp) && isNoPort(udp);

/** The transport protocol if the set matches ports of only this one protocol and nothing else; otherwise undefined. */
export function onlyTransport({ echo, tcp, udp }: MatchSet): 'tcp' | 'udp' | undefined {
  if (!hasNoAddress(echo) || isNoPort(tcp) === isNoPort(udp)) return undefined;
  const only = isNoPort(tcp) ? 'udp' : 'tcp';
  return hasNoAddress((only === 'tcp' ? tcp : udp).anyPort) ? only : undefined;
}

const sameNamedPeers = (a: readonly NamedPeers[], b: readonly NamedPeers[]): boolean =>
  a.length === b.length && a.every(({ group, key }, i) => group === b[i]?.group && key === b[i].key);

const sameNames = (a: Names | undefined, b: Names | undefined): boolean =>
  a === undefined || b === undefined ? a === b : sameNamedPeers(a.v4, b.v4) && sameNamedPeers(a.v6, b.v6);

function withoutNames(addresses: Addresses): Addresses {
  const { names: _, ...ranges } = addresses;
  return ranges;
}

/** Adds the named devices to the addresses. A family that is already complete needs no names. */
export function withNames(addresses: Addresses, { v4, v6 }: Names): Addresses {
  const names: Names = {
    v4: isWholeFamily(addresses.v4, 4) ? [] : v4,
    v6: isWholeFamily(addresses.v6, 6) ? [] : v6,
  };
  const ranges = withoutNames(addresses);
  return names.v4.length + names.v6.length === 0 ? ranges : { ...ranges, names };
}

const sameSets = (a: Plain, b: Plain): boolean => sameRanges(a.v4, b.v4) && sameRanges(a.v6, b.v6);

/** Equal sets, shared alike. */
export function sameAddresses(a: Addresses, b: Addresses): boolean {
  const [ours = [], theirs = []] = [a.shares, b.shares];
  return (
    sameSets(a, b) &&
    sameNames(a.names, b.names) &&
    ours.length === theirs.length &&
    ours.every((share, i) => {
      const other = theirs[i];
      return other !== undefined && share.group === other.group && sameSets(share, other);
    })
  );
}

/** The whole set as the share of one group. */
export const sharedBy = ({ v4, v6 }: Plain, group: GroupId): Addresses =>
  v4.length + v6.length === 0 ? { v4, v6 } : { v4, v6, shares: [{ group, v4, v6 }] };

function union(all: readonly Plain[]): Plain {
  const [first, second, third] = all;
  if (first === undefined) return { v4: [], v6: [] };
  if (second === undefined) return first;
  if (third === undefined) return { v4: uniteRanges(first.v4, second.v4), v6: uniteRanges(first.v6, second.v6) };
  const v4: Range[] = [];
  const v6: Range[] = [];
  for (const each of all) {
    for (const range of each.v4) v4.push(range);
    for (const range of each.v6) v6.push(range);
  }
  return { v4: mergeRanges(v4), v6: mergeRanges(v6) };
}

/** What is left of the shares once one of each group remains, and none that earlier groups cover. */
function mergeShares(shares: readonly Share[], order: readonly GroupId[]): Share[] {
  const byGroup = new Map<GroupId, Share[]>();
  for (const share of shares) {
    const same = byGroup.get(share.group);
    if (same === undefined) byGroup.set(share.group, [share]);
    else same.push(share);
  }
  let covered: Plain = { v4: [], v6: [] };
  const beyond = (ranges: RangeSet, by: RangeSet): RangeSet => (holdsAll(by, ranges) ? [] : ranges);
  const left: Share[] = [];
  for (const group of order) {
    const own = byGroup.get(group);
    if (own === undefined) continue;
    const whole = union(own);
    const share = { group, v4: beyond(whole.v4, covered.v4), v6: beyond(whole.v6, covered.v6) };
    if (isNoRange(share)) continue;
    covered = left.length === 0 ? share : union([covered, share]);
    left.push(share);
  }
  return left;
}

/** Each name once, in the order of the groups. */
function mergeNamedPeers(all: readonly NamedPeers[], order: readonly GroupId[]): NamedPeers[] {
  const byKey = new Map(all.map((named) => [`${named.group} ${named.key}`, named]));
  const placeOf = ({ group }: NamedPeers): number => order.indexOf(group);
  return [...byKey.values()].toSorted((a, b) => placeOf(a) - placeOf(b) || (a.key < b.key ? -1 : 1));
}

/** The union of all, with the shares of all groups that are named in this order. */
export function mergeAddresses(all: readonly Addresses[], order: readonly GroupId[] = []): Addresses {
  const some = all.filter((addresses) => !hasNoAddress(addresses));
  const [first] = some;
  if (first === undefined) return { v4: [], v6: [] };
  if (some.length === 1) return first;
  if (some.every(({ names }) => names === undefined)) return mergeRanged(some, order);
  const named = (family: 'v4' | 'v6'): NamedPeers[] =>
    mergeNamedPeers(
      some.flatMap(({ names }) => names?.[family] ?? []),
      order,
    );
  const ranged = some.filter((addresses) => !isNoRange(addresses)).map(withoutNames);
  return withNames(mergeRanged(ranged, order), { v4: named('v4'), v6: named('v6') });
}

function mergeRanged(some: readonly Addresses[], order: readonly GroupId[]): Addresses {
  const [first] = some;
  if (first === undefined) return { v4: [], v6: [] };
  if (some.length === 1) return first;
  const merged = union(some);
  const shares = some.flatMap((addresses) => addresses.shares ?? []);
  const [share] = shares;
  // Where only a part is anybody's share, nothing is: rules are made of shares, and must admit the whole.
  if (share === undefined || some.some((addresses) => addresses.shares === undefined)) return merged;
  if (shares.every(({ group }) => group === share.group)) return sharedBy(merged, share.group);
  return { ...merged, shares: mergeShares(shares, order) };
}

/** What is left to say of the addresses where one or both families need no more words. */
export function withoutFamilies(
  addresses: Addresses,
  { v4, v6 }: { readonly v4: boolean; readonly v6: boolean },
): Addresses {
  const isFree = (list: RangeSet, named: readonly NamedPeers[] = []): boolean => list.length + named.length === 0;
  const { names } = addresses;
  if ((!v4 || isFree(addresses.v4, names?.v4)) && (!v6 || isFree(addresses.v6, names?.v6))) return addresses;
  const left = <T extends Plain>(plain: T): T => ({ ...plain, ...(v4 && { v4: [] }), ...(v6 && { v6: [] }) });
  const shares = addresses.shares?.map(left).filter((share) => !isNoRange(share));
  const { v4: left4, v6: left6 } = left(addresses);
  const ranges = { v4: left4, v6: left6, ...(shares !== undefined && shares.length > 0 && { shares }) };
  return names === undefined ? ranges : withNames(ranges, { v4: v4 ? [] : names.v4, v6: v6 ? [] : names.v6 });
}

/** Sets of one family each beside each other, with the shares of each in turn. */
export function besideEachOther(v4: Addresses, v6: Addresses): Addresses {
  const shares = [...(v4.shares ?? []), ...(v6.shares ?? [])];
  const ranges = { v4: v4.v4, v6: v6.v6, ...(shares.length > 0 && { shares }) };
  if (v4.names === undefined && v6.names === undefined) return ranges;
  return withNames(ranges, { v4: v4.names?.v4 ?? [], v6: v6.names?.v6 ?? [] });
}

/** The same set with shares of one family each: those of IPv4 come first. */
export const byFamily = (addresses: Addresses): Addresses =>
  besideEachOther(
    withoutFamilies(addresses, { v4: false, v6: true }),
    withoutFamilies(addresses, { v4: true, v6: false }),
  );
