/** Owns the commands about members of an organization. */
import type { Invitation, Member, RemovedMember } from '../../api/organization.ts';
import type { IssuedToken, Token } from '../../api/user.ts';
import { isUuid } from '../../policy/ids.ts';
import { RingfenceError } from '../../client/error.ts';
import { isAddress, signInMethods } from '../../client/sign-in.ts';
import { printable } from '../../policy/names/printable.ts';
import { allDevices, deviceName } from '../lookup/device.ts';
import { effectOf, sayNotes } from '../lookup/effect.ts';
import { allGroups } from '../lookup/group.ts';
import { find, invitations, members } from '../lookup/resource.ts';
import { writeOrAsk } from '../lookup/write-changes.ts';
import { couldMean, isPartOfId } from '../../client/words/naming.ts';
import { compareNames } from '../../policy/names/compare-names.ts';
import { namedLine } from '../session/find-one.ts';
import type { Session } from '../session/session.ts';
import { CliError, usageError } from '../terminal/exit.ts';
import { shellWord } from '../terminal/text.ts';
import { idColumn, type Column, type Layout } from '../terminal/table.ts';
import { readExpiry, shortTime } from '../terminal/time.ts';
import type { Invocation, PlainNoun } from '../command-line/client-command.ts';
import { listOf, showOf } from './noun.ts';

const roleText = ({ role, accepted }: Member): string => (accepted === false ? `${role} (not accepted)` : role);

const columns = (layout: Layout): readonly Column<Member>[] => [
  { head: 'USERNAME', text: ({ username }) => username },
  idColumn('ID', ({ user_id }) => user_id, layout),
  { head: 'ROLE', text: roleText },
  { head: 'SINCE', text: ({ created_at }) => shortTime(created_at) },
];

const form = { none: 'There are no members.', id: 'user_id', sortBy: 'username', columns } as const;

const personOf = ({ email, username }: Invitation): string => email ?? username ?? '';

const invitationColumns = (layout: Layout): readonly Column<Invitation>[] => [
  { head: 'PERSON', text: personOf },
  idColumn('ID', ({ id }) => id, layout),
  { head: 'ROLE', text: ({ role }) => role },
  { head: 'PROVIDER', text: ({ issuer }) => issuer },
  { head: 'EXPIRES', text: ({ expires_at }) => shortTime(expires_at) },
];

const invitationForm = { none: 'There are no invitations.', columns: invitationColumns } as const;

const plain = { resource: members, form };

export const memberNoun: PlainNoun = {
  word: 'member',
  summary: 'members of the organization',
  commands: [
    listOf(plain, { usage: 'list', summary: 'list members', examples: ['ringfence member list --org acme'] }),
    showOf(plain, { usage: 'show <user>', summary: 'show a member', examples: ['ringfence member show ada'] }),
    {
      usage: 'add <user>',
      dryRun: true,
      summary: 'make a user a member, now or at the first sign-in',
      about:
        'An e-mail address invites the person: whoever signs in with this address, verified by the identity provider, becomes a member. To add a user whose name is such an address, use the id. A server without an identity provider knows only names. With --at-sign-in a name at the provider works too; use it only where people cannot choose their names there. Invitations expire, and end when the owner who made them is no longer an owner.',
      options: [
        {
          flags: '--role <role>',
          help: 'the role of the new member',
          choices: ['member', 'owner'],
          fallback: 'member',
        },
        {
          flags: '--at-sign-in',
          help: 'invite by the name at the identity provider, also if there is no such user yet',
        },
        { flags: '--issuer <url>', help: 'the identity provider, if the server has several' },
        {
          flags: '--expires <time>',
          help: 'end of an invitation: a time, or 2d, 12h from now (default: 7 days from now)',
        },
      ],
      examples: [
        'ringfence member add ada',
        'ringfence member add kim@example.org --role owner',
        'ringfence member add kim --at-sign-in --expires 2d',
      ],
      run: (session, { args: [text = ''], options }: Invocation<AddOptions>) => add(session, text, options),
    },
    listOf(
      { resource: invitations, form: invitationForm },
      {
        usage: 'invitations',
        summary: 'list people who become members when they sign in',
        examples: ['ringfence member invitations'],
      },
    ),
    {
      usage: 'uninvite <person>',
      dryRun: true,
      summary: 'revoke an invitation, by its e-mail address, name or id',
      examples: ['ringfence member uninvite kim@example.org'],
      run: (session, { args: [text = ''] }) => uninvite(session, text),
    },
    {
      usage: 'role <user> <role>',
      dryRun: true,
      summary: 'make a member an owner, or an owner a member',
      about:
        'The role is owner or member. A new owner has the rights at once and counts as an owner once it has accepted (`ringfence member accept`). An organization always keeps at least one owner who has accepted.',
      examples: ['ringfence member role ada owner'],
      run: (session, { args: [text = '', role = ''] }) => setRole(session, text, role),
    },
    {
      usage: 'accept',
      dryRun: true,
      summary: 'accept that somebody else made you an owner',
      about:
        'You have the rights of an owner at once. Until you accept, or make a change that only an owner may make, you do not count as an owner who stays: the others cannot leave the organization to you, and it does not count among the organizations that you may own.',
      examples: ['ringfence member accept --org acme'],
      run: accept,
    },
    {
      usage: 'remove <user>',
      dryRun: true,
      policy: true,
      summary: 'remove a member, and delete the devices and groups of the member in the organization',
      about:
        "With --keep-devices the member's devices become yours and stay enrolled; their tokens stay valid until you rotate them, also for anyone who copied them. To rotate all of them and show the new ones, use --rotate-tokens; then put the new tokens on the devices. The groups that the member owned are removed from these devices; " +
        'if the default group would then apply to a device, the command stops. To continue anyway, use --detach.',
      destructive: true,
      options: [
        { flags: '--keep-devices', help: 'take over the devices of the member instead of deleting them' },
        {
          flags: '--rotate-tokens',
          help: 'with --keep-devices: end the old tokens of these devices and show new ones',
        },
      ],
      detach: true,
      examples: [
        'ringfence member remove ada',
        'ringfence member remove ada --keep-devices',
        'ringfence member remove ada --keep-devices --rotate-tokens -o json',
        'ringfence member remove ada --yes --wait',
      ],
      run: (session, { args: [text = ''], options }: Invocation<RemoveOptions>) => remove(session, text, options),
    },
  ],
};

interface AddOptions {
  readonly role?: 'member' | 'owner';
  readonly atSignIn?: true;
  readonly issuer?: string;
  readonly expires?: string;
}

async function add(session: Session, text: string, options: AddOptions): Promise<void> {
  const { role = 'member', atSignIn } = options;
  const client = await session.client();
  if (atSignIn === true || (await isAddress(client, text))) return invite(session, text, options);
  const organization = await session.organization();
  const body = isUuid(text) ? { user_id: text } : { username: await clearUsername(session, text) };
  let member = await client.members.add(organization, body).catch(async (error: unknown) => {
    throw (await unknownUser(session, text, error)) ?? error;
  });
  if (role === 'owner') member = await client.members.update(organization, member.user_id, { role });
  const as = role === 'owner' ? ' as an owner' : '';
  return session.printRecord(member, `Added ${member.username} to the organization${as}.`, member.user_id);
}

/** What to do about a user who does not exist; undefined for every other failure. */
async function unknownUser(session: Session, text: string, error: unknown): Promise<CliError | undefined> {
  const isUnknown = error instanceof RingfenceError && error.errors.some(({ code }) => code === 'unknown_user');
  if (!isUnknown) return undefined;
  const missing = `user ${text} does not exist`;
  if (isUuid(text)) return new CliError('notFound', missing);
  const { provider } = await signInMethods(await session.client());
  if (provider !== undefined)
    return new CliError('notFound', `${missing}; to invite a person, give the e-mail address, or add --at-sign-in`);
  const name = shellWord(text);
  return new CliError(
    'notFound',
    `${missing}, and this server has no identity provider at which an invited person could sign in`,
    [
      'An administrator can create the user, and a token for the person:',
      `  ringfence user create ${name}`,
      `  ringfence token create first --user ${name}`,
    ],
  );
}

async function invite(session: Session, text: string, options: AddOptions): Promise<void> {
  const { role = 'member', issuer, expires } = options;
  const client = await session.client();
  const invitation = await client.invitations.create(await session.organization(), {
    ...(text.includes('@') ? { email: text } : { username: text }),
    role,
    ...(issuer !== undefined && { issuer }),
    ...(expires !== undefined && { expires_at: readExpiry(expires, Date.now()) }),
  });
  const name = personOf(invitation);
  const proof = invitation.email === undefined ? 'with this name' : 'with this verified address';
  return session.printRecord(
    invitation,
    `Invited ${name}. Whoever signs in ${proof} at ${invitation.issuer} before ${shortTime(invitation.expires_at)} becomes ${role === 'owner' ? 'an owner' : 'a member'}.`,
  );
}

async function uninvite(session: Session, text: string): Promise<void> {
  const { organization_id, id } = await find(session, invitations, text);
  const gone = await (await session.client()).invitations.revoke(organization_id, id);
  return session.printRecord(gone, `Revoked the invitation of ${personOf(gone)}.`);
}

/** The username, unless it could also be part of the id of another user that this person may see. */
async function clearUsername(session: Session, text: string): Promise<string> {
  if (!isPartOfId(text)) return text;
  const users = await knownUsers(session);
  const others = users.filter(({ id, username }) => username !== text && couldMean(id, text));
  if (others.length === 0) return text;
  throw usageError(
    `${text} is ambiguous: it is a username and also part of the id of another user; use an id:`,
    users
      .filter((user) => user.username === text || others.includes(user))
      .map(({ id, username }) => namedLine({ id, names: [username] })),
  );
}

/** Every user for an administrator, the members for all others. */
async function knownUsers(session: Session): Promise<readonly { readonly id: string; readonly username: string }[]> {
  const client = await session.client();
  try {
    return await client.users.list();
  } catch (error) {
    if (!(error instanceof RingfenceError) || error.status !== 403) throw error;
    return (await members.all(session)).map(({ user_id, username }) => ({ id: user_id, username }));
  }
}

async function setRole(session: Session, text: string, role: string): Promise<void> {
  if (role !== 'owner' && role !== 'member')
    throw usageError(`the role is owner or member, not ${JSON.stringify(role)}`);
  const client = await session.client();
  const organization = await session.organization();
  const { user_id } = await find(session, members, text);
  const member = await client.members.update(organization, user_id, { role });
  await session.printRecord(
    member,
    `${member.username} is ${role === 'owner' ? 'an owner' : 'a member'} of the organization${member.accepted === false ? ', and counts as one after accepting' : ''}.`,
    member.user_id,
  );
}

async function accept(session: Session): Promise<void> {
  const client = await session.client();
  const organization = await session.organization();
  const { id } = await client.whoAmI();
  const member = await client.members.accept(organization, id);
  await session.printRecord(member, 'You are an owner of the organization.', member.user_id);
}

interface RemoveOptions {
  readonly keepDevices?: true;
  readonly rotateTokens?: true;
}

async function remove(session: Session, text: string, options: RemoveOptions): Promise<void> {
  const { keepDevices, rotateTokens } = options;
  if (rotateTokens === true && keepDevices !== true)
    throw usageError('--rotate-tokens needs --keep-devices: the tokens of deleted devices end anyway');
  const client = await session.client();
  const organization = await session.organization();
  const { user_id, username } = await find(session, members, text);
  const keep = keepDevices === true ? { keep: 'devices' as const } : {};
  if (session.values.dryRun === true) return previewRemoval(session, user_id, keep);
  const question =
    keepDevices === true
      ? `Remove ${username} and all groups of ${username} in the organization, and take over the devices?`
      : `Remove ${username}, and delete all devices and groups of ${username} in the organization?`;
  if (!(await session.confirm(question))) return session.say('Nothing was changed.');
  const query = { ...keep, ...session.testQuery };
  const member = await writeOrAsk(session, (asked) =>
    client.members.remove(organization, user_id, { ...query, ...asked }),
  );
  if (member.revision !== undefined) session.noteWritten(member.revision);
  const done = `Removed ${member.username} from the organization${alongText(member)}.`;
  const tokens = member.kept_devices.length === 0 ? [] : await tokensOf(session, member.kept_devices);
  if (rotateTokens === true) return rotateAll(session, member, tokens, done);
  if (tokens.length > 0)
    session.say(
      `These tokens stay valid, also for anyone who copied them, until you replace their secrets with \`ringfence token rotate\`: ${tokens.map(({ id, device_id }) => `${id} of device ${device_id}`).join(', ')}.`,
    );
  return session.printRecord(member, done, member.user_id);
}

/** What the server would do, as it says itself: the same code judges the removal, and takes it back. */
async function previewRemoval(session: Session, user: string, keep: { readonly keep?: 'devices' }): Promise<void> {
  const client = await session.client();
  const organization = await session.organization();
  const [devices, groups] = await Promise.all([allDevices(session), allGroups(session)]);
  const removed = await writeOrAsk(session, (asked) =>
    client.members.remove(organization, user, { ...keep, ...session.testQuery, ...asked, dry_run: true }),
  );
  const deviceNames = new Map<string, string>(devices.map((device) => [device.id, deviceName(device)]));
  const groupNames = new Map<string, string>(groups.map(({ id, group_name }) => [id, group_name]));
  const namesOf = (ids: readonly string[], known: ReadonlyMap<string, string>): readonly string[] =>
    ids.map((id) => known.get(id) ?? id).toSorted(compareNames);
  const gone = [...removed.deleted_devices, ...removed.deleted_groups];
  const effect = gone.length === 0 ? undefined : await effectOf(session, { delete: gone }, { isJudged: true });
  for (const line of [
    ...namesOf(removed.deleted_devices, deviceNames).map((name) => `- device ${name}`),
    ...namesOf(removed.kept_devices, deviceNames).map((name) => `~ device ${name}: user`),
    ...namesOf(removed.deleted_groups, groupNames).map((name) => `- group ${name}`),
    ...(effect?.lines ?? []).map(([sign, text]) => `${sign} ${text}`),
  ])
    session.say(printable(line));
  if (effect !== undefined) sayNotes(session, effect);
  const sentence = `Would remove ${removed.username} from the organization${alongText(removed)}.`;
  return session.printRecord(
    removed,
    `${sentence} ${effect?.summary ?? ''} Nothing was written.`.replace('  ', ' '),
    user,
  );
}

/** The tokens of these devices, which are the caller's by now. */
async function tokensOf(session: Session, devices: readonly string[]): Promise<readonly Token[]> {
  const tokens = await (await session.client()).tokens.list();
  return tokens.filter(({ device_id }) => device_id !== undefined && devices.includes(device_id));
}

/** Ends every old secret, and shows the new ones, also those made before a failure: they are shown only once. */
async function rotateAll(
  session: Session,
  member: RemovedMember,
  tokens: readonly Token[],
  done: string,
): Promise<void> {
  const client = await session.client();
  const rotated: IssuedToken[] = [];
  let failure: unknown;
  try {
    for (const { id } of tokens) {
      const { token, ...record } = await client.tokens.rotate(id);
      if (token !== undefined) rotated.push({ ...record, token });
    }
  } catch (error) {
    failure = error;
  }
  const lines = rotated.map(({ device_id, token }) => `device ${device_id}: ${token}`);
  await session.print({
    data: { ...member, device_tokens: rotated },
    ids: rotated.map(({ token }) => token),
    table: [done, ...lines].join('\n'),
  });
  if (failure !== undefined) {
    session.say(
      `${rotated.length} of ${tokens.length} tokens are rotated; the others stay valid: \`ringfence token list\` shows them.`,
    );
    throw failure;
  }
  if (rotated.length > 0)
    session.say('The old tokens ended. Save the new ones now and put them on the devices: they are not shown again.');
}

/** What went along, for people. */
function alongText({ deleted_devices, deleted_groups, kept_devices }: RemovedMember): string {
  const parts = [
    ...(deleted_devices.length > 0 ? [`${counted(deleted_devices.length, 'device')} deleted`] : []),
    ...(kept_devices.length > 0 ? [`${counted(kept_devices.length, 'device')} taken over`] : []),
    ...(deleted_groups.length > 0 ? [`${counted(deleted_groups.length, 'group')} deleted`] : []),
  ];
  return parts.length > 0 ? `: ${parts.join(', ')}` : '';
}

const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`;
