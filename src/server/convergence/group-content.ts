/**
 * Owns the part of a group that matters for enforcement: its selectors, the devices its rules name, and a hash that
 * changes with its policy.
 */
import { createHash } from 'node:crypto';
import { peerKey } from '../../policy/fleet/selector.ts';
import type { GroupId } from '../../policy/ids.ts';
import { isObject } from '../../policy/json.ts';
import type { GroupMode, GuardrailKind, Peer, Selector, StoredRule, Trial } from '../../policy/rule.ts';
import { withoutDescriptions } from '../../policy/rule-identity/descriptions.ts';
import { expiryMoments } from '../../policy/time/policy-at.ts';

export interface GroupContent {
  readonly id: GroupId;
  /** The hash of its rules. */
  readonly hash: string;
  /** When they last changed, as far as that was seen. */
  readonly changedAt: number;
  /** The revision of the record. */
  readonly revision: number;
  readonly isDefault: boolean;
  readonly guardrail: GuardrailKind | undefined;
  readonly appliesTo: readonly Selector[];
  readonly mode: GroupMode;
  /** The peers that its rules name, by key. */
  readonly peers: ReadonlyMap<string, Peer>;
  /** When its rules expire, in milliseconds since the epoch, ascending. */
  readonly moments: readonly number[];
  /** The change that is being tried. */
  readonly trial?: Trial<ContentBefore>;
}

/** The parts that a trial may change. */
type ContentBefore = Pick<GroupContent, 'hash' | 'changedAt' | 'appliesTo' | 'mode' | 'peers' | 'moments'>;

type GroupFields = Readonly<Record<string, unknown>>;

/** Whether a change that was tried stays. */
export const isConfirmed = (old: GroupContent | undefined, group: GroupContent | undefined): boolean =>
  old?.trial !== undefined &&
  group !== undefined &&
  group.trial === undefined &&
  JSON.stringify([old.hash, old.appliesTo, old.mode]) === JSON.stringify([group.hash, group.appliesTo, group.mode]);

/** A hash of the rules of a record. Descriptions are no part of them: they change nothing on a device. */
export function contentHash(record: object): string {
  const { inbound_rules = [], outbound_rules = [] } = withoutDescriptions(record) as GroupFields;
  return createHash('sha256')
    .update(JSON.stringify([inbound_rules, outbound_rules]))
    .digest('base64url');
}

const listAt = (record: GroupFields, name: string): readonly unknown[] => {
  const value = record[name];
  return Array.isArray(value) ? value : [];
};

/** Rules and selectors of a record, or of its state before a trial. */
function contentOf(fields: GroupFields, changedAt: (hash: string) => number): ContentBefore {
  const hash = contentHash(fields);
  const rules = [...listAt(fields, 'inbound_rules'), ...listAt(fields, 'outbound_rules')];
  const peers = rules.flatMap((rule) => (isObject(rule) ? (listAt(rule, 'peers') as readonly Peer[]) : []));
  return {
    hash,
    changedAt: changedAt(hash),
    appliesTo: listAt(fields, 'applies_to') as readonly Selector[],
    mode: fields['mode'] === 'observe' ? 'observe' : 'enforce',
    peers: new Map(peers.map((peer) => [peerKey(peer), peer])),
    moments: expiryMoments(rules as readonly Partial<StoredRule>[]),
  };
}

/** The record is the server's own: it was judged when it was written. */
export function groupContent(id: GroupId, record: GroupFields, revision: number, old?: GroupContent): GroupContent {
  const known = [old, old?.trial?.before];
  const changedAt = (hash: string): number => known.find((state) => state?.hash === hash)?.changedAt ?? revision;
  const { guardrail, trial } = record as GroupFields & { readonly trial?: Trial<GroupFields> };
  return {
    id,
    ...contentOf(record, changedAt),
    revision,
    isDefault: record['is_default'] === true,
    guardrail: guardrail === 'forbid' || guardrail === 'require' ? guardrail : undefined,
    ...(trial && { trial: { ...trial, before: trial.before && contentOf(trial.before, changedAt) } }),
  };
}

/** The peers that the rules name, including those from before a trial. */
export const namedBy = (group: GroupContent | undefined): ReadonlyMap<string, Peer> =>
  new Map([...(group?.trial?.before?.peers ?? []), ...(group?.peers ?? [])]);

/** Equal where the same devices have the same state of the group. */
export const applicationOf = (group: GroupContent | undefined): string =>
  JSON.stringify([
    group?.appliesTo ?? [],
    group?.mode ?? null,
    group?.trial && [group.trial.scope, group.trial.before?.appliesTo ?? null, group.trial.before?.mode ?? null],
  ]);

/** The state of a record whose rules have this hash: the one on trial, or the one before. */
export function stateWithHash(record: object, hash: string): object | undefined {
  const { trial, ...state } = record as GroupFields & { readonly trial?: Trial<GroupFields> };
  if (contentHash(state) === hash) return state;
  const before = trial?.before && { ...state, ...trial.before };
  return before && contentHash(before) === hash ? before : undefined;
}
