/** Owns the rules that evidence names: one entry for each, with the write since which its group has had it. */
import type { EvidenceRule, EvidenceWrite } from '../../api/evidence/document.ts';
import { parseUserId, type GroupId, type OrganizationId } from '../../policy/ids.ts';
import type { Direction, PolicyGroup, StoredRule } from '../../policy/rule.ts';
import { ruleIdentity } from '../../policy/rule-identity/rule-identity.ts';
import type { History, State } from '../store/contract/history.ts';
import type { GroupRecord } from '../store/contract/records.ts';

/** Groups whose history is read, states of each, and states at once: each may be large. */
const mostGroups = 200;
const mostStates = 1_000;
const statesAtOnce = 20;

/** Without what was worked out for one moment only. */
const writtenRule = ({ members: _members, expired: _expired, ...rule }: StoredRule): EvidenceRule['rule'] => rule;

interface NamedRule {
  readonly key: string;
  readonly group: PolicyGroup;
  /** Whose group it is: that user could see all its states. */
  readonly user_id: string | undefined;
  readonly direction: Direction;
  readonly rule: StoredRule;
  /** The revision of the first state that names it. */
  readonly revision: number;
}

const rulesIn = ({ inbound_rules, outbound_rules }: GroupRecord, direction: Direction): readonly StoredRule[] =>
  (direction === 'inbound' ? inbound_rules : outbound_rules) ?? [];

export const writeOf = ({ revision, at, user_id, username }: State<unknown>): EvidenceWrite => ({
  revision,
  at,
  ...(user_id !== undefined && { by: { user_id, ...(username !== undefined && { username }) } }),
});

export class NamedRules {
  readonly #named: NamedRule[] = [];
  /** The keys of the rules that the last state named. */
  #present = new Map<string, string>();
  #next = new Map<string, string>();
  #revision = 0;

  /** Rules are now named for the state of this revision. A rule that was gone in between is another one. */
  begin(revision: number): void {
    this.#present = this.#next;
    this.#next = new Map();
    this.#revision = revision;
  }

  keyOf(group: PolicyGroup, user_id: string | undefined, direction: Direction, rule: StoredRule): string {
    const identity = `${group.id} ${direction} ${ruleIdentity(rule)}`;
    let key = this.#next.get(identity) ?? this.#present.get(identity);
    if (key === undefined) {
      key = `r${this.#named.length + 1}`;
      this.#named.push({ key, group, user_id, direction, rule, revision: this.#revision });
    }
    this.#next.set(identity, key);
    return key;
  }

  /** All of them with who wrote them. `isComplete` is false where there are too many groups to look at. */
  async read(
    org: OrganizationId,
    history: Pick<History, 'ofGroup'>,
  ): Promise<{ readonly rules: ReadonlyMap<string, EvidenceRule>; readonly isComplete: boolean }> {
    const rules = new Map<string, EvidenceRule>();
    const byGroup = new Map<string, NamedRule[]>();
    for (const one of this.#named) {
      const name = `${one.group.id} ${one.revision}`;
      byGroup.set(name, [...(byGroup.get(name) ?? []), one]);
    }
    const looked = new Set<GroupId>();
    let isComplete = true;
    for (const named of byGroup.values()) {
      const { group, user_id, revision } = named[0] as NamedRule;
      looked.add(group.id);
      const isTooMany = looked.size > mostGroups;
      if (isTooMany) isComplete = false;
      const writers = isTooMany
        ? new Map<string, EvidenceWrite>()
        : await writersOf(org, group.id, { named, user_id, revision }, history);
      for (const one of named) {
        const written = writers.get(one.key);
        rules.set(one.key, {
          group_id: one.group.id,
          group_name: one.group.name,
          direction: one.direction,
          rule: writtenRule(one.rule),
          ...(written && { written }),
        });
      }
    }
    return { rules, isComplete };
  }
}

/** Back from the state that names the rules, for as long as the group had each. */
async function writersOf(
  org: OrganizationId,
  id: GroupId,
  {
    named,
    user_id,
    revision,
  }: { readonly named: readonly NamedRule[]; readonly user_id: string | undefined; readonly revision: number },
  history: Pick<History, 'ofGroup'>,
): Promise<ReadonlyMap<string, EvidenceWrite>> {
  const writers = new Map<string, EvidenceWrite>();
  const left = new Set(named);
  const reader = user_id === undefined ? undefined : parseUserId(user_id);
  let below = revision + 1;
  for (let read = 0; read < mostStates && left.size > 0; read += statesAtOnce) {
    const states = await history.ofGroup(org, id, { reader, below, limit: statesAtOnce });
    for (const state of states) {
      for (const one of left) {
        const identity = ruleIdentity(one.rule);
        const isThere =
          state.type === 'change' &&
          rulesIn(state.record, one.direction).some((rule) => ruleIdentity(rule) === identity);
        if (isThere) writers.set(one.key, writeOf(state));
        else left.delete(one);
      }
    }
    const last = states.at(-1);
    if (last === undefined || states.length < statesAtOnce) break;
    below = last.revision;
  }
  return writers;
}
