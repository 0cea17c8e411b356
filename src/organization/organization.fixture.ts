/** Owns groups of a model that tests write down as the policy core reads them. */
import type { PolicyGroup } from '../policy/rule.ts';
import type { OrganizationGroup } from './organization.ts';
import { countNamed } from './read-records.ts';

export const modelGroup = (group: PolicyGroup, isDefault = false): OrganizationGroup => ({
  id: group.id,
  selectable: group,
  isDefault,
  ranges: countNamed(group.inbound) + countNamed(group.outbound),
  group,
});
