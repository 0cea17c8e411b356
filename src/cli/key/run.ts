/** Owns the implementation of the enrollment key commands. */
import type { EnrollmentKey } from '../../api/user.ts';
import { writeEnrollmentKey } from '../../policy/names/enrollment-key.ts';
import { labelsIn } from '../../client/words/unknown-labels.ts';
import { addressForDevices, isLoopback } from '../../client/words/server-address.ts';
import { usageError } from '../terminal/exit.ts';
import { readLabels } from '../terminal/label.ts';
import { findOne } from '../session/find-one.ts';
import type { Session } from '../session/session.ts';
import { idColumn, type Column, type Layout } from '../terminal/table.ts';
import { readExpiry, shortTime } from '../terminal/time.ts';
import { allDevices } from '../lookup/device.ts';
import { allGroups, groupIds } from '../lookup/group.ts';
import { labelDoubts } from '../session/label-doubts.ts';
import { askAbout } from '../session/ask-about.ts';

const columns = (layout: Layout): readonly Column<EnrollmentKey>[] => [
  { head: 'NAME', text: ({ name }) => name },
  idColumn('ID', ({ id }) => id, layout),
  { head: 'LABELS', text: ({ labels = [] }) => labels.join(', ') },
  { head: 'USES LEFT', text: ({ uses_left }) => String(uses_left), align: 'right' },
  { head: 'CREATED', text: ({ created_at }) => shortTime(created_at), wide: true },
  { head: 'EXPIRES', text: ({ expires_at }) => shortTime(expires_at) },
];

const fieldsOf = (key: EnrollmentKey, layout: Layout): readonly (readonly [string, string])[] =>
  columns({ ...layout, wide: true }).flatMap(({ head, text }) =>
    text(key) === '' ? [] : [[head.toLowerCase(), text(key)]],
  );

async function all(session: Session): Promise<readonly EnrollmentKey[]> {
  const client = await session.client();
  return client.enrollmentKeys.list(await session.organization());
}

const find = async (session: Session, text: string): Promise<EnrollmentKey> =>
  findOne('enrollment key', text, await all(session), ({ id, name }) => ({ id, names: [name] }));

export async function list(session: Session): Promise<void> {
  const keys = await all(session);
  await session.printList(keys, {
    none: 'There are no enrollment keys. To create one, run `ringfence key create`.',
    sortBy: 'name',
    columns,
  });
}

export async function show(session: Session, text: string): Promise<void> {
  const key = await find(session, text);
  await session.printRecord(key, (layout) => fieldsOf(key, layout));
}

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
  await session.printRecord(key, (layout) => [...fieldsOf(key, layout), ['key', key.key]], key.key);
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

export async function remove(session: Session, text: string): Promise<void> {
  const client = await session.client();
  const organization = await session.organization();
  const found = await find(session, text);
  const question = `Revoke enrollment key ${found.name || found.id}?`;
  if (!(await session.confirm(question))) return session.say('Nothing was changed.');
  const key = await client.enrollmentKeys.revoke(organization, found.id);
  return session.printRecord(key, `Revoked enrollment key ${key.name || key.id}.`);
}
