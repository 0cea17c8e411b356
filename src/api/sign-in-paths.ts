/** Owns the paths for signing in and out, free of schemas so that small programs can import them. */

/** These are no operations: they are asked without a credential, or with a browser's session only. */
export const signInAddresses = {
  listSignInMethods: ['GET', '/api/auth'],
  signIn: ['GET', '/api/auth/login'],
  finishSignIn: ['GET', '/api/auth/callback'],
  signOut: ['POST', '/api/auth/logout'],
} as const;

/** What a browser's own writes carry and no other site can send: `X-Ringfence-Csrf: 1` (reference 5 (13)). */
export const csrfHeader = 'x-ringfence-csrf';
