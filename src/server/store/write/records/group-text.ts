/** Owns the wire text of a security group: every field in wire order, what is empty left out. */
import { keepable } from './keepable.ts';
import type { GroupContent } from '../../../../organization/decide/records.ts';

/** As it is given, in wire order. */
export const groupContent = ({
  id,
  group_name,
  group_description,
  org_id,
  user_id,
  is_default,
  applies_to = [],
  guardrail,
  mode,
  inbound_rules = [],
  outbound_rules = [],
  trial,
  created_at,
  updated_at,
}: GroupContent): GroupContent => ({
  id,
  group_name: keepable(group_name),
  group_description: keepable(group_description),
  org_id,
  ...(user_id !== undefined && { user_id }),
  ...(is_default === true && { is_default }),
  ...(applies_to.length > 0 && { applies_to }),
  ...(guardrail !== undefined && { guardrail }),
  ...(mode === 'observe' && { mode }),
  ...(inbound_rules.length > 0 && { inbound_rules }),
  ...(outbound_rules.length > 0 && { outbound_rules }),
  ...(trial !== undefined && { trial }),
  created_at,
  updated_at,
});
