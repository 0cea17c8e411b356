/** Owns the headers that every response has. */

export type Headers = readonly (readonly [name: string, value: string])[];

const commonHeaders = [
  ['x-content-type-options', 'nosniff'],
  ['referrer-policy', 'no-referrer'],
  ['cache-control', 'no-store'],
] as const;

/** A browser that has seen it reaches this host by HTTPS only, for a year (RFC 6797). */
const strictTransport = ['strict-transport-security', 'max-age=31536000'] as const;

/** The headers of every answer of a server that people reach at this address, where it is known. */
export const headersAt = (publicUrl: string | undefined): Headers =>
  publicUrl?.startsWith('https:') === true ? [...commonHeaders, strictTransport] : commonHeaders;
