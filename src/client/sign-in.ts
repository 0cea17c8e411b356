/**
 * Owns the requests before a client has a credential and after it gives one up: how to sign in, and the end of a
 * browser's session.
 */
import type { SignedOut, SignInMethods } from '../api/sign-in.ts';
import { signInAddresses } from '../api/sign-in-paths.ts';
import type { CallOptions } from './calls.ts';
import type { Client } from './http.ts';
import { badAnswer, send, withSignal } from './request.ts';

async function ask(
  { transport }: Client,
  [method, path]: readonly [string, string],
  { signal = transport.signal, query }: CallOptions & { readonly query?: Readonly<Record<string, string>> },
): Promise<object> {
  const { clock, timeout } = transport;
  return withSignal({ clock, signal, deadline: timeout }, async (own) => {
    const response = await send(transport, { method, path, query, accept: 'application/json' }, own);
    const value = await response.json().catch(() => undefined);
    if (typeof value === 'object' && value !== null) return value;
    throw badAnswer(`the answer to ${path} is not a record`, response.status);
  });
}

/** How this server lets people in. An older server, which does not say, takes tokens. */
export const signInMethods = async (client: Client, options: CallOptions = {}): Promise<SignInMethods> =>
  (await ask(client, signInAddresses.listSignInMethods, options)) as SignInMethods;

/**
 * Whether the text names a new member by e-mail address. At a server with an identity provider it does so also where a user has this name: people may
 * choose their names at the provider, and an address that somebody chose as a name proves nothing.
 */
export const isAddress = async (client: Client, text: string, options: CallOptions = {}): Promise<boolean> =>
  text.includes('@') && (await signInMethods(client, options)).provider !== undefined;

/** Ends the session of this browser, and returns where the provider's own session can be ended. */
export const signOut = (client: Client, options: CallOptions = {}): Promise<SignedOut> =>
  ask(client, signInAddresses.signOut, options);
