/** Owns the removal of a member: what is deleted, what the actor takes over, and the audit entry of each. */
import {
  parseDeviceId,
  parseGroupId,
  parseTokenId,
  type DeviceId,
  type GroupId,
  type TokenId,
  type UserId,
} from '../../../policy/ids.ts';
import type { Actor } from '../contract/actor.ts';
import type { RemoveMember } from '../contract/members.ts';
import { deleteMemberDevices, revokeMemberDeviceTokens } from '../devices/statements.ts';
import { refuseIsolated } from '../devices/isolated.ts';
import { handOverDevices } from '../devices/hand-over.ts';
import { deleteMemberGroups } from '../groups/statements.ts';
import { statement } from '../postgres/sql.ts';
import { takeOutOfMember } from '../trials/trials.ts';
import { auditRow, insertAudit, type AuditChange } from '../write/audit-entry.ts';
import type { Context } from '../write/context.ts';
import { now } from '../write/stamp.ts';
import type { Locked } from '../write/transaction.ts';

const deleteMember = statement<never>(
  'delete_member',
  `WITH gone AS (DELETE FROM members WHERE org_id = $1 AND user_id = $2 RETURNING org_id, user_id)
   INSERT INTO revocations (org_id, user_id) SELECT org_id, user_id FROM gone`,
);

interface Removal extends RemoveMember {
  readonly by: Actor;
  readonly user: UserId;
  /** Who gets the devices that are kept, instead of the actor. */
  readonly heir?: UserId;
}

interface Removed {
  readonly deleted_devices: readonly DeviceId[];
  readonly deleted_groups: readonly GroupId[];
  readonly kept_devices: readonly DeviceId[];
  readonly revision: number | undefined;
  /** The tokens that ended. */
  readonly tokens: readonly TokenId[];
}

interface Row {
  readonly id: string;
  readonly revision: number;
}

const lastOf = (rows: readonly Row[]): number | undefined =>
  rows.length === 0 ? undefined : Math.max(...rows.map(({ revision }) => revision));

/** Everything of the member in the organization, then the membership. Devices come first: no reader meets a device that names a deleted group. */
export async function removeMember(context: Context, locked: Locked, removal: Removal): Promise<Removed> {
  const { tx, org } = locked;
  const { by, user } = removal;
  await takeOutOfMember(context, locked, by, user);
  const { keepDevices, detach, heir = by.user_id } = removal;
  const kept =
    keepDevices === true
      ? await handOverDevices(context, locked, { by, from: user, to: heir, device: null, detach })
      : [];
  await refuseIsolated(tx, by, [org, null, user]);
  const tokens = await tx.run(revokeMemberDeviceTokens, [org, user]);
  const devices = await tx.run(deleteMemberDevices, [org, user, by.user_id, now(context)]);
  const groups = await tx.run(deleteMemberGroups, [org, user, by.user_id, now(context)]);
  await tx.run(deleteMember, [org, user]);
  const { audit } = by;
  if (audit !== undefined) {
    const entries = (operation: string, rows: readonly (Row & AuditChange)[], fields?: readonly string[]): object[] =>
      rows.map(({ id, revision, name, before, after }) =>
        auditRow(context, {
          ...audit,
          operation,
          fields,
          subject_id: id,
          revision,
          organization_id: org,
          name,
          before,
          after,
        }),
      );
    const all = [
      ...entries('updateDevice', kept, ['user_id', 'security_groups']),
      ...entries('deleteDevice', devices),
      ...entries('deleteUserSecurityGroup', groups),
    ];
    if (all.length > 0) await tx.run(insertAudit, [JSON.stringify(all)]);
  }
  return {
    deleted_devices: devices.map(({ id }) => parseDeviceId(id)),
    deleted_groups: groups.map(({ id }) => parseGroupId(id)),
    kept_devices: kept.map(({ id }) => parseDeviceId(id)),
    revision: lastOf([...kept, ...devices, ...groups]),
    tokens: tokens.map(({ token_id }) => parseTokenId(token_id)),
  };
}
