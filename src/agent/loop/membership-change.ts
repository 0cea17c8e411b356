/** Owns the difference between two states of one policy that have the same groups but different members. */
import { printAddress } from '../../policy/address.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { changeOfMembers } from '../../policy/fleet/members.ts';
import { withIsolation } from '../../policy/isolation/isolation.ts';
import { hasAddress, type RangeSet } from '../../policy/range.ts';
import type { Direction, Family, Members, PolicyGroup, StoredRule } from '../../policy/rule.ts';
import type { FarEnd } from '../host/flow-table.ts';

/** More far ends than this are not worth a list of their own. */
const mostRemotes = 8;

/** The far ends in which two member lists differ. Undefined where there are too many to list. */
class Remotes {
  readonly #found = new Map<string, FarEnd>();
  #tooMany = false;

  get list(): readonly FarEnd[] | undefined {
    return this.#tooMany ? undefined : [...this.#found.values()];
  }

  /** Adds the far ends that are in `among` but not in `other`. */
  addMissing(direction: Direction, among: Members, other: Members): void {
    const change = changeOfMembers(among, other);
    if (change !== undefined) {
      for (const { family, value } of change.lost) this.#add(direction, family, value);
      return;
    }
    this.#addRanges(direction, 4, among.v4, other.v4);
    this.#addRanges(direction, 6, among.v6, other.v6);
  }

  #addRanges(direction: Direction, family: Family, among: RangeSet, other: RangeSet): void {
    if (among === other) return;
    const others = new Set(other.map(keyOf));
    for (const range of among) if (!others.has(keyOf(range))) this.#addRange(direction, family, range, other);
  }

  #add(direction: Direction, family: Family, value: bigint): void {
    const address = printAddress(family, value);
    this.#found.set(`${direction} ${address}`, { address, direction });
    if (this.#found.size > mostRemotes) this.#tooMany = true;
  }

  /** Neighbouring addresses stand in one range, of which a part may be in the other set too. */
  #addRange(direction: Direction, family: Family, { first, last }: RangeSet[number], other: RangeSet): void {
    if (last - first >= 1_024n) this.#tooMany = true;
    for (let at = first; at <= last && !this.#tooMany; at += 1n) {
      if (!hasAddress(other, at)) this.#add(direction, family, at);
    }
  }
}

const keyOf = ({ first, last }: RangeSet[number]): string => `${first}-${last}`;

const nobody: Members = { v4: [], v6: [] };

/** Whether the rules say the same, but for who their peers are. */
const sameWords = (a: StoredRule, b: StoredRule): boolean =>
  a.ip_protocol === b.ip_protocol &&
  a.from_port === b.from_port &&
  a.to_port === b.to_port &&
  a.ip_ranges === b.ip_ranges &&
  a.peers === b.peers &&
  a.expired === b.expired;

/** Sees who the peers of a rule were and are. */
type Visit = (direction: Direction, before: Members, after: Members) => void;

/** Whether the groups say the same, but for who the peers are, which the visitor sees. */
function sameButMembers(before: readonly PolicyGroup[], after: readonly PolicyGroup[], visit: Visit): boolean {
  if (before.length !== after.length) return false;
  return before.every((old, i) => {
    const now = after[i];
    if (now === undefined || old.id !== now.id) return false;
    return (['inbound', 'outbound'] as const).every(
      (direction) =>
        old[direction] === now[direction] ||
        (old[direction].length === now[direction].length &&
          old[direction].every((rule, j) => {
            const other = now[direction][j];
            if (other === undefined || !sameWords(rule, other)) return false;
            if (rule !== other) visit(direction, rule.members ?? nobody, other.members ?? nobody);
            return true;
          })),
    );
  });
}

/** Whether both policies are made of the same rules, but for who their peers are. */
function sameRules(
  before: EffectivePolicy | undefined,
  after: EffectivePolicy | undefined,
  visit: { readonly admitted: Visit; readonly forbidden: Visit },
): boolean {
  if (before === undefined || after === undefined) return false;
  const [old, now] = [withIsolation(before), withIsolation(after)];
  return (
    old.source === now.source &&
    sameButMembers(old.groups, now.groups, visit.admitted) &&
    sameButMembers(old.guardrails?.forbid ?? [], now.guardrails?.forbid ?? [], visit.forbidden) &&
    sameButMembers(old.guardrails?.require ?? [], now.guardrails?.require ?? [], visit.admitted)
  );
}

const ignore: Visit = () => {};

export const onlyMembersDiffer = (before: EffectivePolicy | undefined, after: EffectivePolicy): boolean =>
  sameRules(before, after, { admitted: ignore, forbidden: ignore });

/**
 * The far ends that may have lost something: those that groups no longer name, and those that a guardrail has come to forbid. Nothing
 * where more than the devices may have changed, or for many.
 */
export function remotesOfChange(
  before: EffectivePolicy | undefined,
  after: EffectivePolicy | undefined,
): readonly FarEnd[] | undefined {
  const remotes = new Remotes();
  const same = sameRules(before, after, {
    admitted: (direction, old, now) => remotes.addMissing(direction, old, now),
    forbidden: (direction, old, now) => remotes.addMissing(direction, now, old),
  });
  return same ? remotes.list : undefined;
}
