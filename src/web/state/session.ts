/**
 * Owns the signed-in user: by a token in this tab's storage or by the server's session, the client that carries it, and
 * its end.
 */
import { createContext, use } from 'react';
import type { SignInMethods } from '../../api/sign-in.ts';
import { csrfHeader, signInAddresses } from '../../api/sign-in-paths.ts';
import type { WhoAmI } from '../../api/user.ts';
import { RingfenceError } from '../../client/error.ts';
import { Client } from '../../client/http.ts';
import { signInMethods, signOut } from '../../client/sign-in.ts';
import { clientFor } from './client.ts';

export interface Session {
  /** The same for as long as the same person is signed in, also across a sign-in that had to be repeated. */
  readonly client: Client;
  /** What the client sends now; undefined: the browser's cookie. */
  readonly token: () => string | undefined;
  readonly me: WhoAmI;
  /** Rises when the person has signed in again after the credential ended. */
  readonly round: number;
  /** Signs out. The sign-in page shows `why`. */
  readonly end: (why?: string) => void;
  /** The credential is no longer accepted: asks for another, and keeps the pages as they are. */
  readonly expired: () => void;
}

// Of this tab only: closing it signs out, and no other tab or site can read it.
const place = 'ringfence-token';

export const storedToken = (): string | undefined => sessionStorage.getItem(place) ?? undefined;
export const keepToken = (token: string): void => sessionStorage.setItem(place, token);
export const forgetToken = (): void => sessionStorage.removeItem(place);

/** For a client that lives on when the token changes. */
export const lastingClient = (token: () => string | undefined): Client =>
  new Client({
    url: location.origin,
    headers: { [csrfHeader]: '1' },
    fetch: (url, init) => {
      const now = token();
      const credential = now === undefined ? {} : { authorization: `Bearer ${now}` };
      return fetch(url, { ...init, headers: { ...init.headers, ...credential } });
    },
  });

/** What the server offers; tokens where it does not say. */
export const methodsHere = (): Promise<SignInMethods> =>
  signInMethods(clientFor(undefined)).catch((): SignInMethods => ({ token: true }));

/** Where the button leads: to the provider, and from there back to `path`. */
export const signInLink = (path: string): string =>
  `${signInAddresses.signIn[1]}?return_to=${encodeURIComponent(path)}`;

/** Ends the server's session; a place at the provider to go to, where there is one. */
export const endSession = async (): Promise<string | undefined> =>
  (await signOut(clientFor(undefined)).catch(() => undefined))?.provider_logout;

/** Where a second tab comes back to when a person had to sign in again. */
export const signedInPath = '/ui/signed-in';
/** The channel that notifies the other tabs of this browser of a sign-in. */
export const signInNews = (): BroadcastChannel => new BroadcastChannel('ringfence-signed-in');

/** The user of the browser's session; undefined where there is none. */
export const sessionUser = (): Promise<WhoAmI | undefined> =>
  clientFor(undefined)
    .whoAmI()
    .catch(() => undefined);

/** Who the token speaks for; throws a sentence for the person who typed it. */
export async function signIn(token: string): Promise<WhoAmI> {
  if (!/^[\x21-\x7e]+$/.test(token)) throw new Error('A token has no spaces and only plain characters.');
  let me: WhoAmI;
  try {
    me = await clientFor(token).whoAmI();
  } catch (error) {
    throw new Error(signInFault(error), { cause: error });
  }
  if (me.device_id !== undefined)
    throw new Error('This token belongs to a device. Sign in with the token of a person.');
  if (me.organization_id !== undefined)
    throw new Error('This is an enrollment key. Sign in with the token of a person.');
  return me;
}

function signInFault(error: unknown): string {
  if (!(error instanceof RingfenceError)) return 'The server could not be asked.';
  if (error.code === 'unauthenticated')
    return 'The server does not accept this token. It may be mistyped, revoked or expired.';
  if (error.status === undefined) return 'The server cannot be reached. Try again in a moment.';
  return error.message;
}

export const SessionContext = createContext<Session | undefined>(undefined);

/** Whether the credential may change anything at all. What it may not is not offered; the server decides all the same. */
export const useMayWrite = (): boolean => useSession().me.scope !== 'read-only';

export function useSession(): Session {
  const session = use(SessionContext);
  if (session === undefined) throw new Error('not signed in');
  return session;
}
