/** Owns the guard's read of a device or a group: the record and the reader's membership in its organization, in one statement. */
import type { MemberRole } from '../../../organization/decide/caller.ts';
import { parseUserId, type OrganizationId, type UserId, type DeviceId, type GroupId } from '../../../policy/ids.ts';
import type { Context } from '../write/context.ts';
import { stored } from '../write/stored.ts';
import type { DeviceRecord, GroupRecord, Stored } from '../data/records.ts';
import { isVisible, roleOf } from '../schema/fragments.ts';
import { statement, type Statement } from '../postgres/sql.ts';
import type { GroupReader } from '../data/groups.ts';
import type { Membership } from '../data/members.ts';

/** A thing in an organization, and the reader's place there. */
export interface Visible<T> {
  /** Undefined when the organization does not exist. */
  readonly membership: Membership | undefined;
  /** Undefined when it does not exist or the reader may not see it. `user_id`: the device's user, or the group's owner if it has one. */
  readonly thing: { readonly user_id: UserId | undefined; readonly stored: Stored<T> } | undefined;
}

/** What a path names in an organization. */
export type Subject =
  | { readonly kind: 'group'; readonly org: OrganizationId; readonly id: GroupId }
  | { readonly kind: 'device'; readonly org: OrganizationId; readonly id: DeviceId };

/** What somebody sees of a subject, by its kind. */
export interface VisibleSubject {
  readonly group?: Visible<GroupRecord>;
  readonly device?: Visible<DeviceRecord>;
}

export interface VisibleRow {
  /** Whether the organization exists. */
  readonly is_there: boolean;
  readonly role: MemberRole | null;
  readonly thing_id: string | null;
  readonly thing_user_id: string | null;
  readonly revision: number | null;
  readonly body: string | null;
}

const tables = { device: 'devices', group: 'security_groups' } as const;

/** Who looks at what, in SQL. `reader`: whose own groups are shown. */
interface SubjectQuery {
  readonly kind: Subject['kind'];
  readonly org: string;
  readonly id: string;
  readonly user: string;
  readonly reader: string;
}

/** The columns of `VisibleRow`, and what they are taken from, beside the row that asks. */
export const subjectQuery = ({
  kind,
  org,
  id,
  user,
  reader,
}: SubjectQuery): { readonly columns: string; readonly from: string } => ({
  columns: `o.id IS NOT NULL AS is_there, ${roleOf(user, 'o.id')} AS role, s.id AS thing_id, s.user_id AS thing_user_id, s.revision, s.body`,
  from: `LEFT JOIN organizations o ON o.id = ${org} LEFT JOIN ${tables[kind]} s ON s.id = ${id} AND (s.org_id = ${org}) IS TRUE
    ${kind === 'group' ? `AND ${isVisible('s', reader)}` : ''}`,
});

/** Values: organization, user, id, reader. */
function readSubject(kind: Subject['kind']): Statement<VisibleRow> {
  const { columns, from } = subjectQuery({ kind, org: 'a.org_id', id: 'a.id', user: 'a.user_id', reader: 'a.reader' });
  const asked = 'SELECT $1::uuid AS org_id, $2::uuid AS user_id, $3::uuid AS id, $4::uuid AS reader';
  return statement(`look_at_${kind}`, `SELECT ${columns} FROM (${asked}) AS a ${from}`);
}

const readDevice = readSubject('device');
const readGroup = readSubject('group');

function visible<T>(row: VisibleRow | undefined): Visible<T> {
  if (row?.is_there !== true) return { membership: undefined, thing: undefined };
  const { role, thing_id, thing_user_id, revision, body } = row;
  return {
    membership: { role: role ?? undefined },
    thing:
      thing_id === null
        ? undefined
        : {
            user_id: thing_user_id === null ? undefined : parseUserId(thing_user_id),
            stored: stored<T>({ id: thing_id, revision: revision ?? 0, body: body ?? '' }),
          },
  };
}

export const visibleSubject = (kind: Subject['kind'], row: VisibleRow): VisibleSubject =>
  kind === 'group' ? { group: visible<GroupRecord>(row) } : { device: visible<DeviceRecord>(row) };

/** What `members.of` and a `get` would say, in one read. */
export function accessIn({ callers }: Context) {
  return {
    async device(org: OrganizationId, user: UserId, id: DeviceId): Promise<Visible<DeviceRecord>> {
      const [row] = await callers.run(readDevice, [org, user, id, null]);
      return visible<DeviceRecord>(row);
    },
    async group(
      org: OrganizationId,
      { user, reader }: { readonly user: UserId; readonly reader: GroupReader },
      id: GroupId,
    ): Promise<Visible<GroupRecord>> {
      const [row] = await callers.run(readGroup, [org, user, id, reader ?? null]);
      return visible<GroupRecord>(row);
    },
  };
}

export type Access = ReturnType<typeof accessIn>;
