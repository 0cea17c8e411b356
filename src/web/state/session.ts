/** Owns who is signed in: the token in this tab's storage, the client that carries it, and how a session begins and ends. */
import { createContext, use } from 'react';
import type { WhoAmI } from '../../api/user.ts';
import { RingfenceError } from '../../client/error.ts';
import { Client } from '../../client/http.ts';

export interface Session {
  readonly client: Client;
  readonly me: WhoAmI;
  /** Forgets the token; `why` is told on the sign-in page. */
  readonly end: (why?: string) => void;
}

// Of this tab only: closing it signs out, and no other tab or site can read it.
const place = 'ringfence-token';

export const storedToken = (): string | undefined => sessionStorage.getItem(place) ?? undefined;
export const keepToken = (token: string): void => sessionStorage.setItem(place, token);
export const forgetToken = (): void => sessionStorage.removeItem(place);

export const clientFor = (token: string): Client => new Client({ url: location.origin, token });

/** Who the token speaks for; throws a sentence for the person who typed it. */
export async function signIn(token: string): Promise<{ readonly client: Client; readonly me: WhoAmI }> {
  if (!/^[\x21-\x7e]+$/.test(token)) throw new Error('A token has no spaces and only plain characters.');
  const client = clientFor(token);
  let me: WhoAmI;
  try {
    me = await client.whoAmI();
  } catch (error) {
    throw new Error(signInFault(error), { cause: error });
  }
  if (me.device_id !== undefined)
    throw new Error('This token belongs to a device. Sign in with the token of a person.');
  if (me.organization_id !== undefined)
    throw new Error('This is an enrollment key. Sign in with the token of a person.');
  return { client, me };
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
