/** Owns the commands about enrollment keys. */
import type { EnrollmentKey } from '../../api/user.ts';
import { addressForDevices, isLoopback } from '../../client/words/server-address.ts';
import { labelsIn } from '../../client/words/unknown-labels.ts';
import { writeEnrollmentKey } from '../../policy/names/enrollment-key.ts';
import type { Invocation, PlainNoun } from '../command-line/client-command.ts';
import { allDevices } from '../lookup/device.ts';
import { allGroups, groupIds } from '../lookup/group.ts';
import { keys } from '../lookup/resource.ts';
import { askAbout, labelDoubts } from '../session/ask-about.ts';
import type { Session } from '../session/session.ts';
import { usageError } from '../terminal/exit.ts';
import { readLabels } from '../terminal/label.ts';
import { idColumn, type Column, type Layout } from '../terminal/table.ts';
import { readExpiry, shortTime } from '../terminal/time.ts';
import { deletionOf, listOf, showOf, fieldsOf } from './noun.ts';

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

const plain = { resource: keys, form };

export const keyNoun: PlainNoun = {
  word: 'key',
  summary: 'enrollment keys, which let agents register devices',
  commands: [
    listOf(plain, {
      usage: 'list',
      summary: 'list your enrollment keys, without their secrets',
      examples: ['ringfence key list'],
    }),
    showOf(plain, {
      usage: 'show <key>',
      summary: 'show an enrollment key, without its secret',
      examples: ['ringfence key show lab'],
    }),
    {
      usage: 'create [name]',
      dryRun: true,
      asksIfUnsure: true,
      summary:
        'create an enrollment key, which carries server and organization; it is shown only once and expires after 24 hours unless --expires says otherwise',
      options: [
        { flags: '--uses <number>', help: 'how many devices the key can register', fallback: '1' },
        {
          flags: '--expires <time>',
          help: 'expiry time: a time like 2030-01-31T00:00:00Z, or 7d, 12h, 30m from now (default: 24 hours from now)',
        },
        { flags: '--group <name|id>', help: 'a group for every device that registers with the key', repeats: true },
        {
          flags: '--label <label>',
          help: 'a label for every device that registers with the key (owners only)',
          repeats: true,
        },
      ],
      examples: [
        'ringfence key create lab --uses 10 --expires 7d',
        'ringfence key create app-servers --label app --label prod --uses 20',
        'KEY=$(ringfence key create lab -q)',
      ],
      run: (session, { args: [name], options }: Invocation<NewKey>) => create(session, name, options),
    },
    deletionOf(plain, {
      usage: 'delete <key>',
      summary: 'revoke an enrollment key',
      examples: ['ringfence key delete lab'],
      verb: 'Revoke',
      call: (client, { organization_id, id }, options) => client.enrollmentKeys.revoke(organization_id, id, options),
    }),
  ],
};

interface NewKey {
  readonly uses?: string;
  readonly expires?: string;
  readonly group?: readonly string[];
  readonly label?: readonly string[];
}

async function create(session: Session, name: string | undefined, options: NewKey): Promise<void> {
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
