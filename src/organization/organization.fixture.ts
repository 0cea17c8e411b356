/** Owns groups of a model that tests write down as the policy core reads them. */
import type { GroupBefore, PolicyGroup } from '../policy/rule.ts';
import { GroupRules } from './group-rules.ts';
import type { OrganizationGroup } from './organization.ts';
import { countNamed } from './read-records.ts';

const rulesOf = ({ inbound, outbound }: Pick<PolicyGroup, 'inbound' | 'outbound'>): GroupRules =>
  new GroupRules({ inbound_rules: inbound, outbound_rules: outbound });

const beforeOf = (before: GroupBefore) => ({ ...before, rules: rulesOf(before) });

export function modelGroup(group: PolicyGroup, isDefault = false): OrganizationGroup {
  const { trial, ...rest } = group;
  return {
    id: group.id,
    selectable: {
      ...rest,
      rules: rulesOf(group),
      ...(trial && { trial: { ...trial, before: trial.before && beforeOf(trial.before) } }),
    },
    isDefault,
    ranges: countNamed(group.inbound) + countNamed(group.outbound),
    group,
  };
}
