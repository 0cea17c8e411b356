/** Owns the implementation of the enrollment key commands. */
import type { EnrollmentKey } from '../../api/user.ts';
import { writeEnrollmentKey } from '../../policy/names/enrollment-key.ts';
import { labelsIn } from '../../client/words/unknown-labels.ts';
import { addressForDevices, isLoopback } from '../../client/words/server-address.ts';
import { usageError } from '../terminal/exit.ts';
import { readLabels } from '../terminal/label.ts';
import type { Session } from '../session/session.ts';
import { idColumn, type Column, type Layout } from '../terminal/table.ts';
import { readExpiry, shortTime } from '../terminal/time.ts';
import { allDevices } from '../lookup/device.ts';
import { allGroups, groupIds } from '../lookup/group.ts';
import { fieldsOf, keys, list as listAll, remove as removeOne, show as showOne } from '../lookup/resource.ts';
import { labelDoubts, askAbout } from '../session/ask-about.ts';

const columns = (layout: Layout): readonly Column<EnrollmentKey>[] => [
  { head: 'NAME', text: ({ name }) => name },
  idColumn('ID', ({ id }) => id, layout),
  { head: 'LABELS', text: ({ labels = [] }) => labels.join(', ') },
  { head: 'USES LEFT', text: ({ uses_left }) => String(uses_left), align: 'right' },
  { head: 'CREATED', text: ({ created_at }) => shortTime(created_at), wide: true },
  { head: 'EXPIRES', text: ({ expires_at }) => shortTime(expires_at) },
];

const form = {
  none: 'There are no enrollment keys. To create one, run `ringfence key create`.',
  sortBy: 'name',
  columns,
} as const;

export const list = (session: Session): Promise<void> => listAll(session, keys, form);
export const show = (session: Session, text: string): Promise<void> => showOne(session, keys, form, text);

export interface NewKey {
  readonly uses?: string;
  readonly expires?: string;
  readonly group?: readonly string[];
  readonly label?: readonly string[];
}

export async function create(session: Session, name: string | undefined, options: NewKey): Promise<void> {
  const { uses = '1', expires, group = [], label = [] } = options;
  if (!/^\d{1,9}$/.test(uses)) throw usageError(`\`${uses}\` is not a number of uses`);
  const labels = readLabels(label);
  const client = await session.client();
  const organization = await session.organization();
  const security_groups = group.length === 0 ? [] : await groupIds(session, group);
  if (labels.length > 0) await askAboutKeyLabels(session, labels);
  const body = {
    uses: Number(uses),
    ...(name !== undefined && { name }),
    ...(expires !== undefined && { expires_at: readExpiry(expires, Date.now()) }),
    ...(security_groups.length > 0 && { security_groups }),
    ...(labels.length > 0 && { labels }),
  };
  const issued = await client.enrollmentKeys.create(organization, body);
  const server = addressForDevices(issued.public_url, await session.server());
  const key = { ...issued, key: writeEnrollmentKey(issued.key, issued.organization_id, server) };
  await session.printRecord(key, (layout) => [...fieldsOf(form, key, layout), ['key', key.key]], key.key);
  session.say(
    'Save the key now. You cannot see it again. It carries server and organization. On a device with the package ringfence-agent, run this and type the key:',
  );
  session.say('  sudo ringfence-enroll --interface wg0');
  if (isLoopback(server))
    session.say(
      `The key names ${server}, which works only on this machine. On another machine, add --server with an address at which that machine reaches the server.`,
    );
}

/** A label that a group names is known before the first device has it. */
async function askAboutKeyLabels(session: Session, labels: readonly string[]): Promise<void> {
  if (!session.isForPeople) return;
  const [devices, groups] = await Promise.all([allDevices(session), allGroups(session)]);
  const known = new Set([...labelsIn(groups), ...devices.flatMap((device) => device.labels ?? [])]);
  await askAbout(session, labelDoubts(labels, known));
}

export const remove = (session: Session, text: string): Promise<void> =>
  removeOne(session, keys, text, {
    verb: 'Revoke',
    call: async ({ organization_id, id }, options) =>
      (await session.client()).enrollmentKeys.revoke(organization_id, id, options),
  });
