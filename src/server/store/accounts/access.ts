/** Owns what a request's guard reads of a device or a group: the thing and the reader's place in its organization, in one statement. */
import { parseUserId } from '../../../policy/ids.ts';
import type { Context } from '../write/context.ts';
import { stored } from '../write/quick.ts';
import type { DeviceRecord, GroupRecord, MemberRole } from '../contract/records.ts';
import { isVisible, roleOf } from '../schema/fragments.ts';
import { inOrg, statement } from '../postgres/sql.ts';
import type { Access, Seen } from '../contract/access.ts';

interface Row {
  readonly role: MemberRole | null;
  readonly id: string | null;
  readonly user_id: string | null;
  readonly revision: number | null;
  readonly body: string | null;
}

/** Values: organization, user, id; for a group also its reader. No row: no such organization. */
const look = (thing: string, condition: string): string =>
  `SELECT ${roleOf('$2', 'o.id')} AS role, t.id, t.user_id, t.revision, t.body
   FROM organizations o LEFT JOIN ${thing} t ON t.id = $3 AND ${inOrg('t')} ${condition} WHERE o.id = $1`;

const lookAtDevice = statement<Row>('look_at_device', look('devices', ''));
const lookAtGroup = statement<Row>('look_at_group', look('security_groups', `AND ${isVisible('t', '$4')}`));

function seen<T>(row: Row | undefined): Seen<T> {
  if (row === undefined) return { membership: undefined, thing: undefined };
  const { role, id, user_id, revision, body } = row;
  return {
    membership: { role: role ?? undefined },
    thing:
      id === null
        ? undefined
        : {
            user_id: user_id === null ? undefined : parseUserId(user_id),
            stored: stored<T>({ id, revision: revision ?? 0, body: body ?? '' }),
          },
  };
}

export function accessIn({ reads }: Context): Access {
  return {
    async device(org, user, id) {
      const [row] = await reads.run(lookAtDevice, [org, user, id]);
      return seen<DeviceRecord>(row);
    },
    async group(org, { user, reader }, id) {
      const [row] = await reads.run(lookAtGroup, [org, user, id, reader ?? null]);
      return seen<GroupRecord>(row);
    },
  };
}
