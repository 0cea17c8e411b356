/**
 * Owns how devices' lists change who sees a user's group: the group enters everyone's view with the first device that
 * holds it and leaves with the last. Each change takes a revision of its own (reference 5 (2)).
 */
import { inOrg, statement } from '../postgres/sql.ts';
import { keepStates } from '../write/history.ts';
import { headVersion, logChanges, takeRevisions } from '../write/revisions.ts';
import type { Locked } from '../write/transaction.ts';

const moveGroups = (which: string, set: string, onlyFor: string): string => `
  WITH moving AS MATERIALIZED (
    SELECT g.id, ${headVersion} FROM security_groups g WHERE g.id = ANY ($2::uuid[]) AND ${inOrg('g')} AND g.user_id IS NOT NULL AND ${which}),
  ${takeRevisions('moving', 'ORDER BY moving.id')},
  new AS (
    UPDATE security_groups g SET ${set}, revision = n.revision FROM numbered n WHERE g.id = n.id
    RETURNING g.org_id, g.id, g.user_id, g.revision, g.body, g.left_at),
  kept AS (${keepStates({ kind: 'security-groups', type: 'change', from: 'new', owner: 'new.user_id', onlyFor, by: '$3::uuid', at: '$4::timestamptz' })})
  ${logChanges({ kind: 'security-groups', type: 'change', from: 'new', onlyFor, leftAt: 'new.left_at' })}`;

/** Values: organization, groups, who, now. */
const enter = statement<never>('enter_view', moveGroups('NOT g.is_applied', 'is_applied = true', 'NULL::uuid'));
/**
 * The log shows this change only to the owner. Everyone else gets the departure through `left_at`. Values:
 * organization, groups, who, now.
 */
const leave = statement<never>(
  'leave_view',
  moveGroups(
    'g.is_applied AND NOT EXISTS (SELECT FROM device_groups l WHERE l.group_id = g.id)',
    'is_applied = false, left_at = n.revision',
    'new.user_id',
  ),
);

/** Who applies a list of groups, and when. */
export interface Applied {
  readonly by: string;
  readonly at: string;
}

type Place = Pick<Locked, 'tx' | 'org'>;

/** A group that becomes visible comes before the device that holds it, so that no reader meets an unknown group. */
export async function enterView({ tx, org }: Place, groups: readonly string[], { by, at }: Applied): Promise<void> {
  if (groups.length > 0) await tx.run(enter, [org, groups, by, at]);
}

/** And it leaves after the last device that held it. */
export async function leaveView({ tx, org }: Place, groups: readonly string[], { by, at }: Applied): Promise<void> {
  if (groups.length > 0) await tx.run(leave, [org, groups, by, at]);
}
