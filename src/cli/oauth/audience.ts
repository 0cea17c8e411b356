/** Owns the reading of an access token's audience, before the token is sent anywhere. */

/** The audiences of the token. Undefined if the token is unreadable or names none. */
export function audiencesIn(token: string): readonly string[] | undefined {
  const [, payload, signature, ...more] = token.split('.');
  if (payload === undefined || signature === undefined || more.length > 0) return undefined;
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString('utf8'));
    const aud: unknown = typeof claims === 'object' && claims !== null && 'aud' in claims ? claims.aud : undefined;
    const audiences = typeof aud === 'string' ? [aud] : aud;
    if (!Array.isArray(audiences) || audiences.length === 0) return undefined;
    return audiences.every((one) => typeof one === 'string' && one !== '') ? audiences : undefined;
  } catch {
    return undefined;
  }
}

/** An address without what may differ in its spelling; any other name as it is. */
const canonical = (name: string): string =>
  /^https?:/i.test(name) && URL.canParse(name) ? new URL(name).href.replace(/\/+$/, '') : name;

export const isSameAudience = (a: string, b: string): boolean => canonical(a) === canonical(b);

/** Whether the name is the address of some server, so that it is clear whether it is this one. */
export const isAddress = (name: string): boolean => /^https?:/i.test(name) && URL.canParse(name);

/** RFC 8707 asks for an absolute URI without a fragment; other names are only compared. */
export const isResource = (name: string): boolean => URL.canParse(name) && !name.includes('#');
