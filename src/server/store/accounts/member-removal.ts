/** Owns the removal of a member: what is deleted, what the actor takes over, and the audit entry of each. */
import { refuse } from '../contract/errors.ts';
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
import { refuseOpened } from '../devices/opening.ts';
import {
  findHandedOver,
  findNewerDevice,
  findOpened,
  handOver,
  handOverTokens,
  unlinkMemberGroups,
} from '../devices/hand-over.ts';
import { deleteMemberGroups } from '../groups/statements.ts';
import { statement } from '../postgres/sql.ts';
import { revertOfMember } from '../trials/trials.ts';
import { auditRow, changeOf, insertAudit, type AuditChange } from '../write/audit-entry.ts';
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

type Kept = Row & AuditChange;

/** The member's devices become the actor's: without the member's groups, with their tokens. */
async function keepDevices(
  context: Context,
  { tx, org }: Locked,
  { by, user, detach = false }: Removal,
): Promise<readonly Kept[]> {
  const [newer] = await tx.run(findNewerDevice, [org, user]);
  if (newer !== undefined) refuse({ code: 'newer_record', what: 'device' });
  if (!detach) refuseOpened(await tx.run(findOpened, [org, user]));
  const before = await tx.run(findHandedOver, [org, null, user]);
  const kept = await tx.run(handOver, [org, user, by.user_id, now(context)]);
  const ids = kept.map(({ id }) => id);
  const after = new Map((await tx.run(findHandedOver, [org, ids, null])).map((device) => [device.id, device]));
  const changes = new Map(
    before.map((device) => [device.id, { name: device.hostname, ...changeOf(device, after.get(device.id) ?? device) }]),
  );
  await tx.run(unlinkMemberGroups, [org, user]);
  await tx.run(handOverTokens, [ids, by.user_id]);
  return kept.map((row) => ({ ...row, ...changes.get(row.id) }));
}

const lastOf = (rows: readonly Row[]): number | undefined =>
  rows.length === 0 ? undefined : Math.max(...rows.map(({ revision }) => revision));

/** Everything of the member in the organization, then the membership. Devices come first: no reader meets a device that names a deleted group. */
export async function removeMember(context: Context, locked: Locked, removal: Removal): Promise<Removed> {
  const { tx, org } = locked;
  const { by, user } = removal;
  await revertOfMember(context, locked, by, user);
  const kept = removal.keepDevices === true ? await keepDevices(context, locked, removal) : [];
  await refuseIsolated(tx, by, [org, null, user]);
  const tokens = await tx.run(revokeMemberDeviceTokens, [org, user]);
  const devices = await tx.run(deleteMemberDevices, [org, user, by.user_id, now(context)]);
  const groups = await tx.run(deleteMemberGroups, [org, user, by.user_id, now(context)]);
  await tx.run(deleteMember, [org, user]);
  const { audit } = by;
  if (audit !== undefined) {
    const entries = (operation: string, rows: readonly Kept[], fields?: readonly string[]): object[] =>
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
