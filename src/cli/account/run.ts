/** Owns the implementation of the commands for signing in, the current user and profiles. */
import type { WhoAmI } from '../../api/user.ts';
import type { Client } from '../../client/http.ts';
import { isPlainRemote } from '../../node/plain-http.ts';
import { CliError, usageError } from '../terminal/exit.ts';
import { findOne } from '../session/find-one.ts';
import { profileName, readProfiles, writeProfiles, type Profile, type Profiles } from '../session/profile.ts';
import { clientOf, readServer, readTokenFile, type Session } from '../session/session.ts';
import { idColumn } from '../terminal/table.ts';

/** How `login` is to sign in; without any of these by whatever the server offers and the terminal allows. */
export interface LoginOptions {
  readonly device?: boolean;
  readonly browser?: boolean;
  readonly withToken?: boolean;
  /** Whom tokens for this server name, where that is not its address. */
  readonly audience?: string;
}

export async function login(session: Session, given: string | undefined, options: LoginOptions): Promise<void> {
  const { values } = session;
  const stored = await readProfiles(session.profilesFile);
  const name = values.profile ?? stored.current;
  if (!profileName.test(name)) throw usageError(`\`${name}\` is not a profile name: use letters, digits, . _ and -`);
  const before: Profile | undefined = stored.profiles[name];
  const server = given ?? values.server ?? before?.server;
  if (server === undefined) throw usageError('no server given: ringfence login https://ringfence.example');
  const url = readServer(server);
  if (isPlainRemote(url)) {
    session.terminal.note(
      `Warning: ${url} uses plain http: anyone on the network path can read your token. Use https.`,
    );
  }
  const credential = await newCredential(session, url, options, { stored, profile: name });
  const client = clientOf(url, credential.token, { signal: session.signal });
  const me = await client.whoAmI();
  const organization = await organizationFor(session, client, me);
  const profile: Profile = {
    server: url,
    ...credential,
    ...(organization !== undefined && { organization: organization.id }),
  };
  await writeProfiles(session.profilesFile, { current: name, profiles: { ...stored.profiles, [name]: profile } });
  session.say(
    `Signed in to ${url} as ${me.username}${organization === undefined ? '' : `, organization ${organization.name}`} (profile ${name}).`,
  );
}

async function newCredential(
  session: Session,
  url: string,
  { device, browser, withToken, audience }: LoginOptions,
  around: { readonly stored: Profiles; readonly profile: string },
): Promise<Pick<Profile, 'token' | 'sign_in' | 'confirmed'>> {
  const { terminal, values } = session;
  const ways = [device, browser, withToken].filter((way) => way === true).length;
  if (ways > 1) throw usageError('use only one of --device, --browser and --with-token');
  const given = values.tokenFile !== undefined || (terminal.env['RINGFENCE_TOKEN']?.trim() ?? '') !== '';
  const asked = device === true || browser === true;
  // A script that pipes a token in, or names one, is not asked how to sign in.
  if (!asked && (withToken === true || given || !terminal.isInteractive))
    return { token: await newToken(session, url) };
  const { providerAt, signInAt } = await import('./provider-sign-in.ts');
  const provider = await providerAt(session, url, asked);
  if (provider === undefined) return { token: await newToken(session, url) };
  return signInAt(session, provider, {
    ...around,
    server: url,
    audience,
    way: browser === true ? 'browser' : 'device',
  });
}

async function newToken(session: Session, url: string): Promise<string> {
  const { terminal, values, signal } = session;
  if (values.tokenFile !== undefined) return readTokenFile(values.tokenFile);
  const fromEnv = terminal.env['RINGFENCE_TOKEN']?.trim() ?? '';
  if (fromEnv !== '') return fromEnv;
  const typed = terminal.isInteractive
    ? await terminal.secret(`Token for ${url}: `, { signal })
    : (await terminal.input({ signal })).trim();
  if (typed === '') throw usageError('no token given: type it, pipe it in, or use RINGFENCE_TOKEN or --token-file');
  if (/\s/.test(typed)) throw usageError('a token cannot contain spaces');
  return typed;
}

/** The one that was asked for, or the only one there is. */
async function organizationFor(
  { values }: Session,
  client: Client,
  me: WhoAmI,
): Promise<{ readonly id: string; readonly name: string } | undefined> {
  const all = await client.organizations.list();
  if (values.org !== undefined) {
    return findOne('organization', values.org, all, ({ id, name }) => ({ id, names: [name] }));
  }
  const own = all.filter(({ id, owner_id }) => id === me.organization_id || owner_id === me.id);
  const [only, second] = all.length === 1 ? all : own;
  return second === undefined ? only : undefined;
}

export async function logout(session: Session): Promise<void> {
  const { current, profiles } = await readProfiles(session.profilesFile);
  const name = session.values.profile ?? current;
  const profile = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  if (profile === undefined) throw new CliError('notFound', `profile ${name} does not exist`);
  const rest = Object.fromEntries(Object.entries(profiles).filter(([other]) => other !== name));
  const next = name === current ? (Object.keys(rest)[0] ?? 'default') : current;
  // First here: what cannot be reached must not keep a credential on this disk.
  await writeProfiles(session.profilesFile, { current: next, profiles: rest });
  if (profile.sign_in !== undefined) {
    const { endAt } = await import('./provider-sign-in.ts');
    return session.say(`Removed profile ${name}. ${await endAt(profile.sign_in, session.signal)}`);
  }
  return session.say(
    `Removed profile ${name}. Its token is still valid. To revoke it, run \`ringfence token delete\`.`,
  );
}

export async function whoami(session: Session): Promise<void> {
  const client = await session.client();
  const me = await client.whoAmI();
  await session.printRecord(me, [
    ['user', me.username],
    ['id', me.id],
    ...(me.is_administrator ? [['rights', 'administrator of the server'] as const] : []),
    ...(me.scope === 'read-only' ? [['scope', 'read-only'] as const] : []),
    ...(me.device_id === undefined ? [] : [['device', me.device_id] as const]),
    ...(me.organization_id === undefined ? [] : [['organization', me.organization_id] as const]),
    ['server', client.transport.url],
  ]);
}

export async function listProfiles(session: Session): Promise<void> {
  const { current, profiles } = await readProfiles(session.profilesFile);
  const rows = Object.entries(profiles).map(([name, { server, organization }]) => ({
    name,
    current: name === current,
    server,
    ...(organization !== undefined && { organization }),
  }));
  await session.printList(rows, {
    none: 'There are no profiles. To make one, run `ringfence login`.',
    id: 'name',
    sortBy: 'name',
    columns: (layout) => [
      { head: '', text: (row) => (row.current ? '*' : '') },
      { head: 'NAME', text: ({ name }) => name },
      { head: 'SERVER', text: ({ server }) => server },
      idColumn<(typeof rows)[number]>('ORGANIZATION', ({ organization = '' }) => organization, layout),
    ],
  });
}

export async function useProfile(session: Session, name: string): Promise<void> {
  const stored = await readProfiles(session.profilesFile);
  findOne('profile', name, Object.keys(stored.profiles), (id) => ({ id, names: [id] }));
  await writeProfiles(session.profilesFile, { ...stored, current: name });
  session.say(`Switched to profile ${name}.`);
}
