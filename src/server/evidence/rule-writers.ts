/** Owns the rules that evidence names: one entry for each, with the write since which its group has had it. */
import type { EvidenceRule, EvidenceWrite } from '../../api/evidence/document.ts';
import { parseUserId, type GroupId, type OrganizationId } from '../../policy/ids.ts';
import type { Direction, PolicyGroup, StoredRule } from '../../policy/rule.ts';
import { ruleIdentity } from '../../policy/rule-identity/rule-identity.ts';
import type { SlicedWork } from '../scheduling/time-slices.ts';
import type { History } from '../store/log/history.ts';
import type { State } from '../store/data/history.ts';
import type { GroupRecord } from '../store/data/records.ts';
import { leastSize, type FileRoom } from './file-room.ts';

/** Groups whose history is read, states of each, and states at once: each may be large. */
const mostGroups = 200;
const mostStates = 1_000;
const statesAtOnce = 4;

/** Without what was worked out for one moment only. */
const writtenRule = ({ members: _members, expired: _expired, ...rule }: StoredRule): EvidenceRule['rule'] => rule;

interface NamedRule {
  readonly key: string;
  readonly group: PolicyGroup;
  /** Whose group it is: that user could see all its states. */
  readonly user_id: string | undefined;
  readonly direction: Direction;
  readonly rule: StoredRule;
  /** By direction and by what it says. */
  readonly identity: string;
  /** The revision of the first state that names it. */
  readonly revision: number;
}

const directions = ['inbound', 'outbound'] as const;

const rulesIn = (record: GroupRecord, direction: Direction): readonly (readonly [Direction, StoredRule])[] =>
  (record[`${direction}_rules`] ?? []).map((rule) => [direction, rule]);

const identityOf = (direction: Direction, rule: StoredRule): string => `${direction} ${ruleIdentity(rule)}`;

interface Reading {
  readonly history: Pick<History, 'ofGroup'>;
  readonly slices: SlicedWork;
}

export const writeOf = ({
  revision,
  at,
  user_id,
  username,
  by_server,
}: Pick<State<unknown>, 'revision' | 'at' | 'user_id' | 'username' | 'by_server'>): EvidenceWrite => ({
  revision,
  at,
  ...(user_id !== undefined && { by: { user_id, ...(username !== undefined && { username }) } }),
  ...(by_server && { by_server }),
});

export class NamedRules {
  readonly #room: FileRoom;
  readonly #identities = new WeakMap<StoredRule, string>();
  readonly #named: NamedRule[] = [];
  /** The keys of the rules that the last state named. */
  #present = new Map<string, string>();
  #next = new Map<string, string>();
  #revision = 0;

  constructor(room: FileRoom) {
    this.#room = room;
  }

  /** Rules are now named for the state of this revision. A rule that was gone in between is another one. */
  begin(revision: number): void {
    this.#present = this.#next;
    this.#next = new Map();
    this.#revision = revision;
  }

  keyOf(group: PolicyGroup, user_id: string | undefined, direction: Direction, rule: StoredRule): string {
    const identity = this.#identityOf(direction, rule);
    const name = `${group.id} ${identity}`;
    let key = this.#next.get(name) ?? this.#present.get(name);
    if (key === undefined) {
      this.#room.take(leastSize.rule + group.name.length + identity.length);
      key = `r${this.#named.length + 1}`;
      this.#named.push({ key, group, user_id, direction, rule, identity, revision: this.#revision });
    }
    this.#next.set(name, key);
    return key;
  }

  #identityOf(direction: Direction, rule: StoredRule): string {
    let identity = this.#identities.get(rule);
    if (identity === undefined) this.#identities.set(rule, (identity = identityOf(direction, rule)));
    return identity;
  }

  /** All of them with who wrote them. `isComplete` is false where there are too many groups to look at. */
  async read(
    org: OrganizationId,
    reading: Reading,
  ): Promise<{ readonly rules: ReadonlyMap<string, EvidenceRule>; readonly isComplete: boolean }> {
    const rules = new Map<string, EvidenceRule>();
    const byGroup = new Map<string, NamedRule[]>();
    for (const one of this.#named) {
      const name = `${one.group.id} ${one.revision}`;
      const same = byGroup.get(name);
      if (same === undefined) byGroup.set(name, [one]);
      else same.push(one);
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
        : await writersOf(org, group.id, { named, user_id, revision }, reading);
      for (const one of named) {
        const written = writers.get(one.key);
        if (written !== undefined) this.#room.take(leastSize.written);
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
  { history, slices }: Reading,
): Promise<ReadonlyMap<string, EvidenceWrite>> {
  const writers = new Map<string, EvidenceWrite>();
  const left = new Set(named);
  const reader = user_id === undefined ? undefined : parseUserId(user_id);
  let below = revision + 1;
  for (let read = 0; read < mostStates && left.size > 0; read += statesAtOnce) {
    const states = await history.ofGroup(org, id, { reader, below, limit: statesAtOnce });
    for (const state of states) {
      const there = new Set<string>();
      const rules = state.type !== 'change' ? [] : directions.flatMap((one) => rulesIn(state.record, one));
      await slices.each(rules, ([direction, rule]) => there.add(identityOf(direction, rule)));
      for (const one of left) {
        if (there.has(one.identity)) writers.set(one.key, writeOf(state));
        else left.delete(one);
      }
    }
    const last = states.at(-1);
    if (last === undefined || states.length < statesAtOnce) break;
    below = last.revision;
  }
  return writers;
}
