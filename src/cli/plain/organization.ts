/** Owns the commands about organizations. */
import type { Organization, UpdateOrganization } from '../../api/organization.ts';
import { usageError } from '../terminal/exit.ts';
import { readProfiles, writeProfiles } from '../session/profile.ts';
import type { Session } from '../session/session.ts';
import { organizations } from '../lookup/resource.ts';
import { idColumn } from '../terminal/table.ts';
import { shortTime } from '../terminal/time.ts';
import type { Invocation, PlainNoun } from '../command-line/client-command.ts';
import { deletionOf } from './noun.ts';

interface EditedOrganization extends Pick<UpdateOrganization, 'name' | 'description' | 'observe'> {
  readonly refuseWith?: UpdateOrganization['refuse_with'];
}

export const organizationNoun: PlainNoun = {
  word: 'org',
  summary: 'organizations',
  commands: [
    {
      usage: 'list',
      summary: 'list your organizations',
      examples: ['ringfence org list'],
      run: list,
    },
    {
      usage: 'show [org]',
      summary: 'show an organization',
      examples: ['ringfence org show', 'ringfence org show acme'],
      run: (session, { args: [text] }) => show(session, text),
    },
    {
      usage: 'create <name>',
      dryRun: true,
      summary: 'create an organization, with its default group',
      options: [{ flags: '--description <text>', help: 'free text' }],
      examples: ['ringfence org create acme', 'ringfence org create acme --description "Acme, all sites"'],
      run: (session, { args: [name = ''], options }: Invocation<Pick<UpdateOrganization, 'description'>>) =>
        create(session, name, options),
    },
    {
      usage: 'edit [org]',
      dryRun: true,
      summary: 'rename or describe an organization, or set what its agents record',
      about: '`observe` is what agents record of the traffic; only owners set it, and the audit shows it.',
      options: [
        { flags: '--name <name>', help: 'a new name' },
        { flags: '--description <text>', help: 'free text' },
        { flags: '--observe <what>', help: 'what agents record', choices: ['off', 'counters', 'refused', 'all'] },
        { flags: '--refuse-with <how>', help: 'whether refused packets are answered', choices: ['drop', 'reject'] },
      ],
      examples: ['ringfence org edit acme --name "Acme Inc."', 'ringfence org edit --observe refused'],
      run: (session, { args: [text], options }: Invocation<EditedOrganization>) => edit(session, text, options),
    },
    deletionOf(
      { resource: organizations },
      {
        usage: 'delete <org>',
        summary: 'delete an organization with everything in it',
        examples: ['ringfence org delete acme'],
        verb: 'Delete',
        along: ' with all its devices, groups and members',
        call: (client, { id }, options) => client.organizations.delete(id, options),
      },
    ),
    {
      usage: 'use <org>',
      summary: 'set the organization that commands use',
      examples: ['ringfence org use acme'],
      run: (session, { args: [text = ''] }) => use(session, text),
    },
  ],
};

async function list(session: Session): Promise<void> {
  const { profile } = await session.profile();
  await session.printList(await organizations.all(session), {
    none: 'You are in no organization. To create one, run `ringfence org create NAME`.',
    sortBy: 'name',
    columns: (layout) => [
      { head: '', text: ({ id }) => (id === profile?.organization ? '*' : '') },
      { head: 'NAME', text: ({ name }) => name },
      idColumn<Organization>('ID', ({ id }) => id, layout),
      { head: 'GROUPS', text: ({ security_groups }) => String(security_groups.length), align: 'right' },
      { head: 'REVISION', text: ({ revision }) => String(revision), align: 'right', wide: true },
      { head: 'DESCRIPTION', text: ({ description }) => description },
    ],
  });
}

async function show(session: Session, text: string | undefined): Promise<void> {
  const client = await session.client();
  const id = text === undefined ? await session.organization() : (await session.findOrganization(text)).id;
  const [organization, members, groups] = await Promise.all([
    client.organizations.get(id),
    session.isForPeople ? client.members.list(id) : [],
    session.isForPeople ? client.groups.list(id) : [],
  ]);
  const owners = members.filter(({ role }) => role === 'owner').map(({ username }) => username);
  await session.printRecord(organization, [
    ['name', organization.name],
    ['id', organization.id],
    ['description', organization.description],
    ['owners', owners],
    ['groups', groups.map(({ group_name }) => group_name)],
    ['observe', organization.observe],
    ['refuse with', organization.refuse_with],
    ['revision', String(organization.revision)],
    ['created', shortTime(organization.created_at)],
    ['updated', shortTime(organization.updated_at)],
  ]);
}

const printChange = (session: Session, verb: string, organization: Organization): Promise<void> =>
  session.printRecord(organization, `${verb} organization ${organization.name} (${organization.id}).`);

async function create(
  session: Session,
  name: string,
  { description }: { readonly description?: string },
): Promise<void> {
  const body = { name, ...(description !== undefined && { description }) };
  const organization = await (await session.client()).organizations.create(body);
  await printChange(session, 'Created', organization);
  const { profile } = await session.profile();
  const isChosenHere = session.values.org !== undefined || session.values.server !== undefined;
  if (isChosenHere || profile?.organization === undefined) return;
  // A user with another default organization would otherwise keep working there without noticing.
  const word = /^[\w.-]+$/.test(name) ? name : organization.id;
  session.say(`Commands still use another organization. To switch, run: ringfence org use ${word}`);
}

async function edit(
  session: Session,
  text: string | undefined,
  { name, description, observe, refuseWith }: EditedOrganization,
): Promise<void> {
  if ([name, description, observe, refuseWith].every((one) => one === undefined))
    throw usageError('nothing to change: give --name, --description, --observe or --refuse-with');
  const id = text === undefined ? await session.organization() : (await session.findOrganization(text)).id;
  const body = {
    ...(name !== undefined && { name }),
    ...(description !== undefined && { description }),
    ...(observe && { observe }),
    ...(refuseWith && { refuse_with: refuseWith }),
  };
  const { organizations: api } = await session.client();
  const before = await api.get(id);
  const organization = await api.update(id, body);
  if (before.updated_at === organization.updated_at)
    return session.printRecord(organization, 'Nothing to change: already up to date.');
  return printChange(session, 'Changed', organization);
}

async function use(session: Session, text: string): Promise<void> {
  const { id, name: organization } = await session.findOrganization(text);
  const stored = await readProfiles(session.profilesFile);
  const { name, profile } = await session.profile();
  if (profile === undefined) throw usageError('no profile to save the organization in: run `ringfence login` first');
  const profiles = { ...stored.profiles, [name]: { ...profile, organization: id } };
  await writeProfiles(session.profilesFile, { ...stored, profiles });
  session.say(`Commands now use organization ${organization} (profile ${name}).`);
}
