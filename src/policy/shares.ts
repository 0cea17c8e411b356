/** Owns the union of address sets, and which group has which share of it. */
import type { Addresses, Share } from './canonical.ts';
import type { GroupId } from './ids.ts';
import { holdsAll, mergeRanges, sameRanges, uniteRanges, type Range, type RangeSet } from './range.ts';

type Plain = Pick<Addresses, 'v4' | 'v6'>;

export const isNobody = ({ v4, v6 }: Plain): boolean => v4.length === 0 && v6.length === 0;

const sameSets = (a: Plain, b: Plain): boolean => sameRanges(a.v4, b.v4) && sameRanges(a.v6, b.v6);

/** Equal sets, shared alike. */
export function sameAddresses(a: Addresses, b: Addresses): boolean {
  const [ours = [], theirs = []] = [a.shares, b.shares];
  return (
    sameSets(a, b) &&
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
  return order.flatMap((group) => {
    const whole = union(byGroup.get(group) ?? []);
    const share = { group, v4: beyond(whole.v4, covered.v4), v6: beyond(whole.v6, covered.v6) };
    if (isNobody(share)) return [];
    covered = union([covered, share]);
    return [share];
  });
}

/** The union of all, with the shares of all groups that are named in this order. */
export function mergeAddresses(all: readonly Addresses[], order: readonly GroupId[] = []): Addresses {
  const some = all.filter((addresses) => !isNobody(addresses));
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
  if ((!v4 || addresses.v4.length === 0) && (!v6 || addresses.v6.length === 0)) return addresses;
  const left = <T extends Plain>(plain: T): T => ({ ...plain, ...(v4 && { v4: [] }), ...(v6 && { v6: [] }) });
  const shares = addresses.shares?.map(left).filter((share) => !isNobody(share));
  const { v4: left4, v6: left6 } = left(addresses);
  return { v4: left4, v6: left6, ...(shares !== undefined && shares.length > 0 && { shares }) };
}

/** Sets of one family each beside each other, with the shares of each in turn. */
export function besideEachOther(v4: Addresses, v6: Addresses): Addresses {
  const shares = [...(v4.shares ?? []), ...(v6.shares ?? [])];
  return { v4: v4.v4, v6: v6.v6, ...(shares.length > 0 && { shares }) };
}

/** The same set with shares of one family each: those of IPv4 come first. */
export const byFamily = (addresses: Addresses): Addresses =>
  besideEachOther(
    withoutFamilies(addresses, { v4: false, v6: true }),
    withoutFamilies(addresses, { v4: true, v6: false }),
  );
