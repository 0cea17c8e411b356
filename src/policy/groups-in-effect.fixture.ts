/** Owns which groups are in effect on a device, and why, worked out from its policy: tests compare the store's answer with it. */
import type { EffectivePolicy } from './effective.ts';
import type { GroupId } from './ids.ts';

/** Why a group has a say on a device. */
interface InEffect {
  readonly group_id: GroupId;
  readonly by: 'list' | 'label' | 'default' | 'guardrail';
}

/** What is in effect on a device with this list, and why, in the order in which it counts packets. */
export function groupsInEffect(policy: EffectivePolicy, list: readonly GroupId[]): readonly InEffect[] {
  const { source, groups, guardrails } = policy;
  const above = [...(guardrails?.forbid ?? []), ...(guardrails?.require ?? [])];
  return [
    ...above.map(({ id }): InEffect => ({ group_id: id, by: 'guardrail' })),
    ...groups.map(({ id }): InEffect => ({
      group_id: id,
      by: source === 'default' ? 'default' : list.includes(id) ? 'list' : 'label',
    })),
  ];
}
