/** Owns the profiles on disk: which server, whose token, which organization; readable by their owner only. */
import { mkdir, readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { writeFileAtomically } from '../../node/atomic-write.ts';
import { isObject } from '../../policy/json.ts';
import { CliError } from '../terminal/exit.ts';

/** How the token was got from an identity provider, and how to get the next. */
export interface SignIn {
  readonly issuer: string;
  readonly client_id: string;
  readonly refresh_token?: string;
  readonly expires_at?: string;
}

/** Where a person agreed to have tokens from, and for whom they are meant: what must still be so at the next sign-in and refresh. */
export interface ConfirmedProvider {
  readonly issuer: string;
  readonly client_id: string;
  readonly scopes: string;
  /** Whom tokens for this server name. */
  readonly audience: string;
  /** The resource that the provider receives (RFC 8707). */
  readonly resource?: string;
}

export interface Profile {
  readonly server: string;
  readonly token: string;
  /** Only where an identity provider gave the token. */
  readonly confirmed?: ConfirmedProvider;
  /** Only where an identity provider gave the token. */
  readonly sign_in?: SignIn;
  /** The organization that commands mean when none is named. */
  readonly organization?: string;
}

export interface Profiles {
  readonly current: string;
  readonly profiles: Readonly<Record<string, Profile>>;
}

export const profileName = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const none: Profiles = { current: 'default', profiles: {} };

/** As the XDG base directory specification says; a relative path there counts as absent. */
export function profilesFile(env: NodeJS.ProcessEnv): string {
  const given = env['XDG_CONFIG_HOME'];
  const base = given?.startsWith('/') === true ? given : join(env['HOME'] ?? homedir(), '.config');
  return join(base, 'ringfence', 'profiles.json');
}

function parseSignIn(value: unknown): SignIn | undefined {
  if (!isObject(value)) return undefined;
  const { issuer, client_id, refresh_token, expires_at } = value;
  if (typeof issuer !== 'string' || typeof client_id !== 'string') return undefined;
  return {
    issuer,
    client_id,
    ...(typeof refresh_token === 'string' && { refresh_token }),
    ...(typeof expires_at === 'string' && { expires_at }),
  };
}

function parseConfirmed(value: unknown): ConfirmedProvider | undefined {
  if (!isObject(value)) return undefined;
  const { issuer, client_id, scopes, audience, resource } = value;
  if (typeof issuer !== 'string' || typeof client_id !== 'string') return undefined;
  if (typeof scopes !== 'string' || typeof audience !== 'string') return undefined;
  return { issuer, client_id, scopes, audience, ...(typeof resource === 'string' && { resource }) };
}

function parse(file: string, text: string): Profiles {
  try {
    const value: unknown = JSON.parse(text);
    if (!isObject(value) || typeof value['current'] !== 'string' || !isObject(value['profiles']))
      throw new Error('shape');
    const profiles: Record<string, Profile> = {};
    for (const [name, profile] of Object.entries(value['profiles'])) {
      if (!isObject(profile)) throw new Error('shape');
      const { server, token, organization } = profile;
      if (typeof server !== 'string' || typeof token !== 'string') throw new Error('shape');
      const sign_in = parseSignIn(profile['sign_in']);
      const confirmed = parseConfirmed(profile['confirmed']);
      profiles[name] = {
        server,
        token,
        ...(confirmed && { confirmed }),
        ...(sign_in && { sign_in }),
        ...(typeof organization === 'string' && { organization }),
      };
    }
    return { current: value['current'], profiles };
  } catch {
    throw new CliError('failed', `${file} is not a valid profile file; move it away and run \`ringfence login\` again`);
  }
}

export async function readProfiles(file: string): Promise<Profiles> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return none;
    throw new CliError('failed', `cannot read ${file}: ${error instanceof Error ? error.message : String(error)}`);
  }
  return parse(file, text);
}

/** A reader sees the old file or the new one, and no other user sees either. */
export async function writeProfiles(file: string, profiles: Profiles): Promise<void> {
  try {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 });
    await writeFileAtomically(file, `${JSON.stringify(profiles, undefined, 2)}\n`, { mode: 0o600, durable: true });
  } catch (error) {
    throw new CliError('failed', `cannot write ${file}: ${error instanceof Error ? error.message : String(error)}`);
  }
}
