/** Owns the server's cookies: their names, how they are written, and how they are parsed from an untrusted header. */

export type CookieName = 'session' | 'sign-in';

/** With `__Host-` a browser takes a cookie from this very host only, over HTTPS only: no neighbour can plant one. */
export const cookieName = (name: CookieName, secure: boolean): string => `${secure ? '__Host-' : ''}ringfence-${name}`;

/** The value; undefined when it is absent, or there twice, of which one is not ours. */
export function readCookie(header: string | undefined, name: string): string | undefined {
  const found = (header ?? '')
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`));
  return found.length === 1 ? found[0]?.slice(name.length + 1) : undefined;
}

/** Seconds of 0 take the cookie away. */
export const writeCookie = (name: string, value: string, secure: boolean, seconds: number): string =>
  `${name}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`;

/** The secret of the session that a browser brings. */
export const sessionCookie = (header: string | undefined, publicUrl: string): string | undefined =>
  readCookie(header, cookieName('session', publicUrl.startsWith('https:')));
