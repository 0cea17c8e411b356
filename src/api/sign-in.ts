/**
 * Owns the wire form of sign-in with an identity provider: the methods that a server offers, and how a browser's
 * session begins and ends.
 */
import { Type, type TSchema } from 'typebox';
import { strict, type Wire } from './scalar.ts';
import { signInAddresses } from './sign-in-paths.ts';

const CommandLine = Type.Object(
  {
    client_id: Type.String({ description: 'A public client of the provider.' }),
    scopes: Type.String({ description: 'What to ask for, with spaces between.' }),
    parameters: Type.Record(Type.String(), Type.String(), {
      description: 'More parameters for the provider, so that its access tokens are meant for this server.',
    }),
  },
  { ...strict, description: 'How a program gets access tokens that this server accepts.' },
);

const Provider = Type.Object(
  {
    name: Type.String({ description: 'What to call it.' }),
    issuer: Type.String({ format: 'uri' }),
    browser: Type.Boolean({ description: 'Whether `/api/auth/login` signs a browser in.' }),
    command_line: Type.Optional(CommandLine),
  },
  strict,
);

export const SignInMethods = Type.Object(
  {
    token: Type.Boolean({ description: 'Tokens of this server are accepted.' }),
    provider: Type.Optional(Provider),
  },
  { ...strict, $id: 'SignInMethods', title: 'SignInMethods' },
);
export type SignInMethods = Wire<typeof SignInMethods>;

export const SignedOut = Type.Object(
  {
    provider_logout: Type.Optional(
      Type.String({ format: 'uri', description: "Where a browser goes to end the provider's own session too." }),
    ),
  },
  { ...strict, $id: 'SignedOut', title: 'SignedOut' },
);
export type SignedOut = Wire<typeof SignedOut>;

interface SignInPath {
  readonly summary: string;
  readonly query: Readonly<Record<string, string>>;
  /** The answer when all went well: a record, or a way on for a browser. */
  readonly answer: TSchema | 'redirect';
  /** Statuses of failures. */
  readonly failures: readonly number[];
  /** Those of them that are pages for people; the others are problem documents, as everywhere. */
  readonly failurePages?: readonly number[];
  /** Needs the cookie of a browser's session; the others need no credential. */
  readonly needsSession?: true;
}

const described = {
  listSignInMethods: {
    summary: 'How to sign in at this server; needs no credential',
    query: {},
    answer: SignInMethods,
    failures: [429],
  },
  signIn: {
    summary: 'Send a browser to the identity provider',
    query: { return_to: 'Where to go afterwards: a path of the web UI.' },
    answer: 'redirect',
    failures: [404, 429, 503],
    failurePages: [503],
  },
  finishSignIn: {
    summary: 'Where the identity provider sends the browser back to; failures are pages for people',
    query: {
      code: 'From the provider.',
      state: 'From the provider.',
      iss: 'From the provider.',
      error: 'From the provider.',
    },
    answer: 'redirect',
    failures: [400, 401, 403, 404, 429, 503],
    failurePages: [400, 401, 403, 503],
  },
  signOut: {
    summary: "End the browser's session; needs the session's cookie and the header `X-Ringfence-Csrf`",
    query: { everywhere: '`true`: end all sessions of the user.' },
    answer: SignedOut,
    failures: [401, 403, 429, 503],
    needsSession: true,
  },
} satisfies Readonly<Record<keyof typeof signInAddresses, SignInPath>>;

export type SignInPathId = keyof typeof signInAddresses;
export const signInPathIds = Object.keys(signInAddresses) as readonly SignInPathId[];

/** Every way in and out by its id. */
export const signInPaths = Object.fromEntries(
  signInPathIds.map((id) => [id, { method: signInAddresses[id][0], path: signInAddresses[id][1], ...described[id] }]),
) as unknown as {
  readonly [Id in SignInPathId]: SignInPath & { readonly method: 'GET' | 'POST'; readonly path: string };
};
