/** Owns the difference between two states of one policy whose groups are the same and whose devices are not. */
import { printAddress } from '../../policy/address.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { hasAddress, type RangeSet } from '../../policy/range.ts';
import type { Family, Members, PolicyGroup, StoredRule } from '../../policy/rule.ts';

/** More far ends than this are not worth a list of their own. */
const mostRemotes = 8;

/** The far ends by which the sets differ; nothing where they are too many to be told one by one. */
class Remotes {
  readonly #found = new Set<string>();
  #tooMany = false;

  get list(): readonly string[] | undefined {
    return this.#tooMany ? undefined : [...this.#found];
  }

  add(family: Family, before: RangeSet, after: RangeSet): void {
    if (before === after) return;
    const [old, now] = [new Set(before.map(keyOf)), new Set(after.map(keyOf))];
    for (const [ranges, others, other] of [
      [before, now, after],
      [after, old, before],
    ] as const) {
      for (const range of ranges) if (!others.has(keyOf(range))) this.#addRange(family, range, other);
    }
  }

  /** Neighbouring addresses stand in one range, of which a part may be in the other set too. */
  #addRange(family: Family, { first, last }: RangeSet[number], other: RangeSet): void {
    if (last - first >= 1_024n) this.#tooMany = true;
    for (let at = first; at <= last && !this.#tooMany; at += 1n) {
      if (!hasAddress(other, at)) this.#found.add(printAddress(family, at));
      if (this.#found.size > mostRemotes) this.#tooMany = true;
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
  a.peers === b.peers;

function addGroups(remotes: Remotes, before: readonly PolicyGroup[], after: readonly PolicyGroup[]): boolean {
  if (before.length !== after.length) return false;
  return before.every((old, i) => {
    const now = after[i];
    if (now === undefined || old.id !== now.id) return false;
    return (['inbound', 'outbound'] as const).every(
      (direction) =>
        old[direction].length === now[direction].length &&
        old[direction].every((rule, j) => {
          const other = now[direction][j];
          if (other === undefined || !sameWords(rule, other)) return false;
          const [then, since] = [rule.members ?? nobody, other.members ?? nobody];
          remotes.add(4, then.v4, since.v4);
          remotes.add(6, then.v6, since.v6);
          return true;
        }),
    );
  });
}

/**
 * The far ends that are in one policy and not in the other, where both are made of the same rules and only the devices that these
 * name differ; nothing where more may have changed, or for many.
 */
export function remotesOfChange(
  before: EffectivePolicy | undefined,
  after: EffectivePolicy | undefined,
): readonly string[] | undefined {
  if (before === undefined || after === undefined || before.source !== after.source) return undefined;
  const remotes = new Remotes();
  const same =
    addGroups(remotes, before.groups, after.groups) &&
    addGroups(remotes, before.guardrails?.forbid ?? [], after.guardrails?.forbid ?? []) &&
    addGroups(remotes, before.guardrails?.require ?? [], after.guardrails?.require ?? []);
  return same ? remotes.list : undefined;
}
