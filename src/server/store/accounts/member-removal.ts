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
import type { Actor } from '../data/actor.ts';
import type { RemoveMember } from '../data/members.ts';
import { ownedBy } from '../devices/owned.ts';
import { revokeDeviceTokens } from '../devices/statements.ts';
import { refuseIsolated } from '../devices/isolated.ts';
import { handOverDevices } from '../devices/hand-over.ts';
import { statement } from '../postgres/sql.ts';
import { takeOutOfMember } from '../trials/trials.ts';
import { auditRow, type AuditChange } from '../write/audit-entry.ts';
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

const rowOf = ({ id, revision }: Row): Row => ({ id, revision });

const lastOf = (rows: readonly Row[]): number | undefined =>
  rows.length === 0 ? undefined : Math.max(...rows.map(({ revision }) => revision));

/** Everything of the member in the organization, then the membership. Devices come first: no reader meets a device that names a deleted group. */
export async function removeMember(context: Context, locked: Locked, removal: Removal): Promise<Removed> {
  const { tx, org, records } = locked;
  const { by, user } = removal;
  await takeOutOfMember(context, locked, by, user);
  const { keepDevices, detach, heir = by.user_id } = removal;
  const kept =
    keepDevices === true
      ? await handOverDevices(context, locked, { by, from: user, to: heir, device: null, detach })
      : [];
  // Devices that were handed over are not the member's any more.
  await records.flush();
  const made = { by: by.user_id, at: now(context) };
  const { devices: deviceIds, groups: groupIds } = await ownedBy(tx, org, user);
  const tokens = await tx.run(revokeDeviceTokens, [deviceIds]);
  await records.load({ devices: deviceIds, groups: groupIds });
  await refuseIsolated(
    context,
    locked,
    by,
    deviceIds.flatMap((id) => records.device(id)?.record ?? []),
  );
  const devices = deviceIds.map((id) => records.removeDevice(id, made));
  const groups = groupIds.map((id) => records.removeGroup(id, made));
  await records.flush();
  await tx.run(deleteMember, [org, user]);
  const { audit } = by;
  if (audit !== undefined) {
    const entries = (operation: string, rows: readonly (Row & AuditChange)[], fields?: readonly string[]): string[] =>
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
    for (const entry of [
      ...entries('updateDevice', kept, ['user_id', 'security_groups']),
      ...entries('deleteDevice', devices.map(rowOf)),
      ...entries('deleteUserSecurityGroup', groups.map(rowOf)),
    ])
      records.note(entry);
  }
  return {
    deleted_devices: devices.map(({ id }) => parseDeviceId(id)),
    deleted_groups: groups.map(({ id }) => parseGroupId(id)),
    kept_devices: kept.map(({ id }) => parseDeviceId(id)),
    revision: lastOf([...kept, ...devices, ...groups]),
    tokens: tokens.map(({ token_id }) => parseTokenId(token_id)),
  };
}
