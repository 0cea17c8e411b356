/** Owns the refusal of a guardrail that leaves nothing of a direction (reference 1.4 (6)). */
import { forbidsEverything } from '../../../policy/guardrail/void-rules.ts';
import { parseGroupId } from '../../../policy/ids.ts';
import type { Direction } from '../../../policy/rule.ts';
import { refuse } from '../../problems.ts';
import type { GroupRecord } from './records.ts';

type Rules = Partial<Pick<GroupRecord, 'inbound_rules' | 'outbound_rules'>>;

const nobody = parseGroupId('00000000-0000-0000-0000-000000000000');

const directionsOf = ({ inbound_rules = [], outbound_rules = [] }: Rules): readonly Direction[] =>
  forbidsEverything({ id: nobody, name: '', inbound: inbound_rules, outbound: outbound_rules });

/** Refuses the rules of a `forbid` that leave nothing of a direction. */
export function refuseEverything(rules: Rules): void {
  const directions = directionsOf(rules);
  if (directions.length > 0) refuse({ code: 'forbids_everything', directions });
}

/** The same for the groups of a change set, as they would be written. */
export function refuseEverythingIn(groups: readonly (Rules & { readonly guardrail?: unknown })[]): void {
  for (const [index, group] of groups.entries()) {
    const directions = group.guardrail === 'forbid' ? directionsOf(group) : [];
    if (directions.length === 0) continue;
    const problem = { code: 'forbids_everything', directions } as const;
    refuse({ code: 'change_refused', list: 'security_groups', index, problem });
  }
}
