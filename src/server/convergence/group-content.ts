/** Owns as much of a group as tells whom it applies to, whom it names, and whether a change of its record is a change of policy. */
import { createHash } from 'node:crypto';
import { peerKey } from '../../policy/fleet/selector.ts';
import type { GroupId } from '../../policy/ids.ts';
import { isObject } from '../../policy/json.ts';
import type { GuardrailKind, Peer, Selector, StoredRule } from '../../policy/rule.ts';
import { expiryMoments } from '../../policy/time/policy-at.ts';

export interface GroupContent {
  readonly id: GroupId;
  /** Of its rules. */
  readonly hash: string;
  /** When they last changed, as far as that was seen. */
  readonly changedAt: number;
  /** Of the record. */
  readonly revision: number;
  readonly isDefault: boolean;
  readonly guardrail: GuardrailKind | undefined;
  readonly appliesTo: readonly Selector[];
  /** Whom its rules name, by their keys. */
  readonly peers: ReadonlyMap<string, Peer>;
  /** When its rules expire, in milliseconds since the epoch, ascending. */
  readonly moments: readonly number[];
}

type GroupFields = Readonly<Record<string, unknown>>;

/** What the rules of a record are, in a few characters. */
export function contentHash(record: object): string {
  const { inbound_rules = [], outbound_rules = [] } = record as GroupFields;
  return createHash('sha256')
    .update(JSON.stringify([inbound_rules, outbound_rules]))
    .digest('base64url');
}

const listAt = (record: GroupFields, name: string): readonly unknown[] => {
  const value = record[name];
  return Array.isArray(value) ? value : [];
};

/** The record is the server's own: it was judged when it was written. */
export function groupContent(id: GroupId, record: GroupFields, revision: number, old?: GroupContent): GroupContent {
  const hash = contentHash(record);
  const rules = [...listAt(record, 'inbound_rules'), ...listAt(record, 'outbound_rules')];
  const peers = rules.flatMap((rule) => (isObject(rule) ? (listAt(rule, 'peers') as readonly Peer[]) : []));
  const { guardrail } = record;
  return {
    id,
    hash,
    changedAt: old?.hash === hash ? old.changedAt : revision,
    revision,
    isDefault: record['is_default'] === true,
    guardrail: guardrail === 'forbid' || guardrail === 'require' ? guardrail : undefined,
    appliesTo: listAt(record, 'applies_to') as readonly Selector[],
    peers: new Map(peers.map((peer) => [peerKey(peer), peer])),
    moments: expiryMoments(rules as readonly Partial<StoredRule>[]),
  };
}
