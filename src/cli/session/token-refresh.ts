/**
 * Owns a profile's access token while it is used: one of the processes that share the profile refreshes it before it
 * expires.
 */
import { open, rm, stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { CliError } from '../terminal/exit.ts';
import { readProfiles, writeProfiles, type Profile } from './profile.ts';

/** A token this close to its end may be refused on its way. */
const marginMs = 30_000;
const lockPauseMs = 50;
/** Longer than a refresh may take: a lock that is older was left behind. */
const staleMs = 40_000;

/** Holds the lock beside the profiles while it works: two refreshes with one refresh token would end the sign-in. */
async function locked<T>(file: string, work: () => Promise<T>): Promise<T> {
  const lock = `${file}.lock`;
  for (const until = Date.now() + 2 * staleMs; ;) {
    try {
      await (await open(lock, 'wx', 0o600)).close();
      break;
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
      const made = (await stat(lock).catch(() => undefined))?.mtimeMs ?? Date.now();
      if (Date.now() - made > staleMs) await rm(lock, { force: true });
      else if (Date.now() > until)
        throw new CliError('failed', `another program holds ${lock}; if no other program runs, remove the file`);
      else await sleep(lockPauseMs);
    }
  }
  try {
    return await work();
  } finally {
    await rm(lock, { force: true });
  }
}

export class TokenRefresh {
  readonly #file: string;
  readonly #name: string;
  #profile: Profile;
  #refreshing: Promise<string> | undefined;

  constructor({ file, name, profile }: { readonly file: string; readonly name: string; readonly profile: Profile }) {
    this.#file = file;
    this.#name = name;
    this.#profile = profile;
  }

  /** A token with some time left, if one is to be had. */
  readonly get = (): Promise<string> => {
    const { token, sign_in } = this.#profile;
    const ends = sign_in?.expires_at === undefined ? Number.POSITIVE_INFINITY : Date.parse(sign_in.expires_at);
    return ends - Date.now() > marginMs ? Promise.resolve(token) : this.renew(token);
  };

  /** Another token than this one, which the server refuses or which is about to end. */
  renew(rejected: string): Promise<string> {
    this.#refreshing ??= this.#renew(rejected).finally(() => (this.#refreshing = undefined));
    return this.#refreshing;
  }

  /** Resolves when no refresh is under way: what the provider gave must reach the disk. */
  async settled(): Promise<void> {
    await this.#refreshing?.catch(() => undefined);
  }

  async #renew(rejected: string): Promise<string> {
    return locked(this.#file, async () => {
      const stored = await readProfiles(this.#file);
      const profile = stored.profiles[this.#name];
      const sign_in = profile?.sign_in;
      // Another process was first, or the person has signed in anew.
      if (profile !== undefined && profile.token !== rejected) {
        this.#profile = profile;
        return profile.token;
      }
      if (profile === undefined || sign_in?.refresh_token === undefined) {
        throw new CliError('notAllowed', 'your sign-in has ended; run `ringfence login` again');
      }
      // Loaded only here: most commands have a token that is good for a while.
      const [{ refresh }, { audiencesIn, isSameAudience }] = await Promise.all([
        import('../oauth/provider.ts'),
        import('../oauth/audience.ts'),
      ]);
      const { audience = profile.server, resource } = profile.confirmed ?? {};
      const fresh = await refresh({ ...sign_in, resource }, sign_in.refresh_token);
      const audiences = audiencesIn(fresh.access_token) ?? [];
      if (!audiences.some((one) => isSameAudience(one, audience))) {
        throw new CliError('notAllowed', `the provider gave no token for ${audience}; run \`ringfence login\` again`);
      }
      this.#profile = {
        ...profile,
        token: fresh.access_token,
        sign_in: {
          issuer: sign_in.issuer,
          client_id: sign_in.client_id,
          ...(fresh.refresh_token === undefined ? {} : { refresh_token: fresh.refresh_token }),
          ...(fresh.expires_at === undefined ? {} : { expires_at: new Date(fresh.expires_at).toISOString() }),
        },
      };
      await writeProfiles(this.#file, { ...stored, profiles: { ...stored.profiles, [this.#name]: this.#profile } });
      return this.#profile.token;
    });
  }
}
