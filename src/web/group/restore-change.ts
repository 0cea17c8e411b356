/** Owns an older state of a group as a change that can be simulated: what it names may be gone, and its rules may have expired. */
import type { SecurityGroup } from '../../api/group.ts';
import type { ChangeSetBody } from '../../api/change/change-set.ts';
import type { Peer, StoredRule } from '../../policy/rule.ts';
import { isExpired } from '../../policy/time/policy-at.ts';

interface Surroundings {
  /** The group as it is now; undefined where it is deleted. */
  readonly now: SecurityGroup | undefined;
  readonly isGone: (deviceId: string) => boolean;
  /** Labels that devices carry. */
  readonly labels: ReadonlySet<string>;
  readonly time: number;
}

/** A label that no device carries. */
function unusedLabel(labels: ReadonlySet<string>): string {
  for (let count = 0; ; count += 1) if (!labels.has(`none-${count}`)) return `none-${count}`;
}

/**
 * The server simulates no new rule that has expired or that names a device that is gone; a restore writes both. Such a rule or peer matches
 * nothing, and so does a label that no device carries. The rule stays, because an outbound rule closes its direction also where it matches nothing.
 */
function simulated(rule: StoredRule, { isGone, labels, time }: Surroundings): StoredRule {
  const nothing: Peer = { labels: [unusedLabel(labels)] };
  const { expires_at: _expires, ip_ranges: _ranges, peers: _peers, ...rest } = rule;
  if (isExpired(rule, time)) return { ...rest, peers: [nothing] };
  const there = (rule.peers ?? []).filter((peer) => !('device_id' in peer && isGone(peer.device_id)));
  return there.length === (rule.peers ?? []).length ? rule : { ...rule, peers: [...there, nothing] };
}

export function restoreChange(then: SecurityGroup, around: Surroundings): ChangeSetBody {
  const { now } = around;
  const rules = (list: readonly StoredRule[] = []): StoredRule[] => list.map((rule) => simulated(rule, around));
  const applies_to = [...(then.applies_to ?? [])];
  return {
    security_groups: [
      {
        id: then.id,
        inbound_rules: rules(then.inbound_rules),
        outbound_rules: rules(then.outbound_rules),
        ...(then.mode !== now?.mode && { mode: then.mode ?? 'enforce' }),
        ...((applies_to.length > 0 || now?.applies_to !== undefined) && { applies_to }),
        ...(now === undefined && {
          group_name: then.group_name,
          ...(then.guardrail && { guardrail: then.guardrail }),
          ...(then.user_id && { user_id: then.user_id }),
        }),
      },
    ],
  };
}
