/** Owns the creation of an organization's default group, with its organization and after a reset (reference 1.2 (11)). */
import type { GroupContent, Made } from '../../../organization/decide/records.ts';
import { defaultInboundRules, defaultOutboundRules } from '../../../policy/rule.ts';
import type { GroupState, Records } from '../write/records/records.ts';

/** Bound by no count: an organization has one always. The write that it is part of was judged already, as what it is. */
export const makeDefaultGroup = (
  records: Records,
  { id, org, by, at }: Made & { readonly id: string; readonly org: string },
): GroupState =>
  records.putGroup(
    {
      id,
      group_name: 'default',
      group_description: 'Applies to every device that has no group of its own',
      org_id: org,
      is_default: true,
      inbound_rules: defaultInboundRules,
      outbound_rules: defaultOutboundRules,
      created_at: at,
      updated_at: at,
    } as GroupContent,
    { by, at },
  );
