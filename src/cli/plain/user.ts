/** Owns the commands about the users of a server. */
import type { User } from '../../api/user.ts';
import type { Invocation, PlainNoun } from '../command-line/client-command.ts';
import { find, users } from '../lookup/resource.ts';
import type { Session } from '../session/session.ts';
import { usageError } from '../terminal/exit.ts';
import { idColumn, type Column, type Layout } from '../terminal/table.ts';
import { shortTime } from '../terminal/time.ts';
import { listOf } from './noun.ts';

const columns = (layout: Layout): readonly Column<User>[] => [
  { head: 'USERNAME', text: ({ username }) => username },
  idColumn('ID', ({ id }) => id, layout),
  { head: 'RIGHTS', text: ({ is_administrator }) => (is_administrator ? 'administrator' : '') },
  { head: 'CREATED', text: ({ created_at }) => shortTime(created_at) },
];

const form = { none: 'There are no users.', sortBy: 'username', columns } as const;

export const userNoun: PlainNoun = {
  word: 'user',
  summary: 'users of the server (administrators only)',
  commands: [
    listOf({ resource: users, form }, { usage: 'list', summary: 'list users', examples: ['ringfence user list'] }),
    {
      usage: 'create <username>',
      dryRun: true,
      summary: 'create a user',
      examples: ['ringfence user create ada'],
      run: async (session, { args: [username = ''] }) => {
        const user = await (await session.client()).users.create({ username });
        await session.printRecord(user, `Created user ${user.username} (${user.id}).`);
      },
    },
    {
      usage: 'delete <user>',
      dryRun: true,
      summary: 'delete a user, and its tokens, devices and groups in all organizations',
      policy: 'untested',
      about:
        'Its tokens, sessions and sign-in end first. If it is the last owner of organizations, the command names them and needs --organizations.\n\n' +
        'With --wait, the command waits for the organizations that you are a member of. If the change affects other organizations, only their owners can see whether it is in force, ' +
        'and the command exits with 4.',
      destructive: true,
      options: [
        {
          flags: '--organizations <delete|to:USER>',
          help: 'delete the organizations that the user owns alone, or make another user their owner, who also gets the devices of the user there',
        },
      ],
      detach: true,
      examples: [
        'ringfence user delete ada',
        'ringfence user delete ada --yes --wait',
        'ringfence user delete ada --organizations to:grace',
      ],
      run: (session, { args: [text = ''], options }: Invocation<RemoveOptions>) => remove(session, text, options),
    },
  ],
};

interface RemoveOptions {
  readonly organizations?: string;
  readonly detach?: true;
}

async function remove(session: Session, text: string, { organizations, detach }: RemoveOptions): Promise<void> {
  const client = await session.client();
  const found = await find(session, users, text);
  const heir =
    organizations?.startsWith('to:') === true
      ? await find(session, users, organizations.slice('to:'.length))
      : undefined;
  if (organizations !== undefined && organizations !== 'delete' && heir === undefined)
    throw usageError(`--organizations is \`delete\` or \`to:USER\`, not \`${organizations}\``);
  const also =
    organizations === undefined
      ? ''
      : heir === undefined
        ? ' Organizations that it owns alone are deleted, with everything in them.'
        : ` ${heir.username} gets the organizations that it owns alone, and its devices there.`;
  const question = `Delete user ${found.username}, with all its tokens, devices and groups?${also}`;
  if (!(await session.confirm(question))) return session.say('Nothing was changed.');
  const isDryRun = session.values.dryRun === true;
  const user = await client.users.remove(found.id, {
    ...(organizations !== undefined && { organizations: heir === undefined ? organizations : `to:${heir.id}` }),
    ...(detach === true && { detach }),
    ...(isDryRun && { dry_run: true }),
  });
  if (!isDryRun) session.noteChanged(user.organizations, user.other_organizations);
  const named = (all: readonly { readonly name: string }[]): string => all.map(({ name }) => name).join(', ');
  const { deleted_organizations: gone = [], handed_over_organizations: left = [] } = user;
  return session.printRecord(
    user,
    [
      `${isDryRun ? 'Would delete' : 'Deleted'} user ${user.username} (${user.id}).`,
      ...(gone.length > 0 ? [`Deleted with it: ${named(gone)}.`] : []),
      ...(left.length > 0
        ? [`${heir?.username ?? 'Another user'} owns now, and has yet to accept: ${named(left)}.`]
        : []),
      ...(isDryRun ? ['Nothing was written.'] : []),
    ].join(' '),
  );
}
