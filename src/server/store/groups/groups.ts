/** Owns security groups in the store: who sees them, and how they come, change and go. */
import type { GroupId, OrganizationId } from '../../../policy/ids.ts';
import { parseDeviceId } from '../../../policy/ids.ts';
import { defaultInboundRules, defaultOutboundRules, type StoredRule } from '../../../policy/rule.ts';
import { quickItem } from '../write/audit-entry.ts';
import { inOrganization, now, pageValues, refuse, type Context, type Ledger } from '../write/context.ts';
import { setList } from '../devices/statements.ts';
import * as sql from './statements.ts';
import { asItem, readRow, stored, toldOf, type QuickRow } from '../write/quick.ts';
import type { GroupRecord, Stored } from '../contract/records.ts';
import type { Value } from '../postgres/sql.ts';
import type { GroupOwner, Groups } from '../contract/groups.ts';

export const defaultGroupName = 'default';
const defaultGroupDescription = 'Applies to every device that has no group of its own';

const ownerValue = (owner: GroupOwner | undefined): string | null =>
  owner === undefined ? null : owner === 'organization' ? '' : owner;

const rulesText = (rules: readonly StoredRule[]): string => JSON.stringify(rules);

/** The values that make a fresh default group, up to and including the time (reference 1.2 (11)). */
export const defaultGroupValues = (org: string, id: string, at: string): Value[] => [
  org,
  id,
  true,
  defaultGroupName,
  defaultGroupDescription,
  rulesText(defaultInboundRules),
  rulesText(defaultOutboundRules),
  at,
];

/** Takes a group off every device that holds it, each with a revision of its own. */
async function detach(
  ledger: Ledger,
  group: GroupId,
  at: string,
  holders: readonly { id: string; security_groups: string[] }[],
): Promise<void> {
  for (const holder of holders) {
    const rest = holder.security_groups.filter((id) => id !== group);
    await ledger.tx.run(setList, [ledger.org, holder.id, rest, at, ledger.take()]);
  }
}

async function remove(
  context: Context,
  ledger: Ledger,
  {
    owner,
    id,
    options,
  }: { owner: GroupOwner; id: GroupId; options: { if_match?: number | undefined; detach?: boolean | undefined } },
): Promise<Stored<GroupRecord>> {
  const [group] = await ledger.tx.run(sql.findGroups, [ledger.org, [id]]);
  if (group === undefined || (group.user_id ?? 'organization') !== owner)
    return refuse({ code: 'not_found', what: 'group' });
  if (options.if_match !== undefined && options.if_match !== group.revision) {
    return refuse({ code: 'precondition_failed', revision: group.revision });
  }
  const at = now(context);
  const holders = await ledger.tx.run(sql.findHolders, [id]);
  if (holders.length > 0 && options.detach !== true) {
    return refuse({
      code: 'group_in_use',
      devices: holders.map((holder) => ({ id: parseDeviceId(holder.id), hostname: holder.hostname })),
    });
  }
  await detach(ledger, id, at, holders);
  const [gone] = await ledger.tx.run(sql.deleteGroup, [ledger.org, id, ledger.take()]);
  if (group.is_default)
    await ledger.tx.run(sql.insertGroup, [...defaultGroupValues(ledger.org, context.newId(), at), ledger.take()]);
  return gone === undefined ? refuse({ code: 'unexpected' }) : stored(gone);
}

export function groupsIn(context: Context): Groups {
  const { reads, writer } = context;
  const read = (row: QuickRow): Stored<GroupRecord> => readRow<GroupRecord>(row, 'group');
  return {
    async list(org: OrganizationId, query) {
      const values: Value[] = [
        org,
        query.reader,
        ownerValue(query.owner),
        query.gt_revision ?? 0,
        ...pageValues(query),
      ];
      return (await reads.run(sql.listGroups, values)).map((row) => stored<GroupRecord>(row));
    },

    async get(org, id, query) {
      const [row] = await reads.run(sql.getGroup, [org, query.reader, ownerValue(query.owner), id]);
      return row === undefined ? refuse({ code: 'not_found', what: 'group' }) : stored<GroupRecord>(row);
    },

    async create(org, by, owner, group) {
      // reference 8 (1): the default group is the one group there is.
      if (context.phase === 1) return refuse({ code: 'phase_forbids' });
      const asked = {
        user_id: owner === 'organization' ? null : owner,
        group_name: group.group_name,
        group_description: group.group_description,
        inbound_rules: rulesText(group.inbound_rules),
        outbound_rules: rulesText(group.outbound_rules),
        at: now(context),
        actor: by.user_id,
      };
      const item = asItem(context.newId(), asked, quickItem(context, by.audit));
      return writer.write(org, { kind: 'quick', operation: sql.createGroup, item, touches: [], decode: read });
    },

    async update(org, by, owner, id, patch, options = {}) {
      const asked = {
        owner: owner === 'organization' ? '' : owner,
        expected: options.if_match ?? null,
        group_name: patch.group_name ?? null,
        group_description: patch.group_description ?? null,
        inbound_rules: patch.inbound_rules === undefined ? null : rulesText(patch.inbound_rules),
        outbound_rules: patch.outbound_rules === undefined ? null : rulesText(patch.outbound_rules),
        at: now(context),
        actor: by.user_id,
      };
      const item = asItem(id, asked, quickItem(context, by.audit));
      return writer.write(org, { kind: 'quick', operation: sql.updateGroup, item, touches: [id], decode: read });
    },

    async delete(org, by, owner, id, options = {}) {
      return inOrganization(context, org, by, (ledger) => remove(context, ledger, { owner, id, options }), toldOf);
    },
  };
}
