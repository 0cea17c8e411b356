/** Owns the creation of an organization's default group, with its organization and after a reset (reference 1.2 (11)). */
import { defaultInboundRules, defaultOutboundRules } from '../../../policy/rule.ts';
import type { Runner } from '../postgres/connection.ts';
import { asItem, readRow, runOne } from '../write/single-statement.ts';
import { rightItem } from '../write/right.ts';
import type { Context } from '../write/context.ts';
import { now } from '../write/stamp.ts';
import { serverRight } from '../contract/actor.ts';
import { refuse } from '../../problems.ts';
import type { GroupRecord, Stored } from '../contract/records.ts';
import { createGroup } from './statements.ts';

/** Bound by no count: an organization has one always. Within a transaction that holds the organization's head. */
export async function makeDefaultGroup(
  context: Context,
  tx: Runner,
  org: string,
  actor: string,
): Promise<Stored<GroupRecord>> {
  const asked = {
    is_default: true,
    group_name: 'default',
    group_description: 'Applies to every device that has no group of its own',
    inbound_rules: JSON.stringify(defaultInboundRules),
    outbound_rules: JSON.stringify(defaultOutboundRules),
    at: now(context),
    actor,
  };
  // The write that it is part of was judged already, as what it is.
  const item = asItem(context.newId(), asked, rightItem(serverRight));
  const row = await runOne(context, { tx, org }, { user_id: actor }, createGroup, item);
  if (row === undefined) return refuse({ code: 'unexpected' });
  return readRow<GroupRecord>(row, 'group', context.quotas);
}
