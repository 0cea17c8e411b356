/** Owns which hosts webhooks may reach: those that the operator allows, and none by default. */
import { isIP } from 'node:net';

/**
 * One entry of `--webhook-hosts`. An exact host was chosen by the operator, wherever it is; what a pattern matches must be a public address. Without a
 * port it is the scheme's own: other ports of the same host may be other services.
 */
export type WebhookHost =
  | { readonly kind: 'exact'; readonly scheme: 'http:' | 'https:'; readonly host: string; readonly port: string }
  | { readonly kind: 'below'; readonly suffix: string }
  | { readonly kind: 'any' };

const name = /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?)*$/;

/** `hooks.example.com`, `10.0.0.5:8443`, `http://127.0.0.1:9000`, `*.example.com` or `*`. */
export function readWebhookHost(text: string): WebhookHost {
  const given = text.trim().toLowerCase();
  if (given === '*') return { kind: 'any' };
  if (given.startsWith('*.')) {
    const suffix = given.slice(1);
    if (!name.test(suffix.slice(1)) || isIP(suffix.slice(1)) !== 0) throw new Error(wrong);
    return { kind: 'below', suffix };
  }
  const written = /^https?:\/\//.test(given) ? given : `https://${given}`;
  const url = URL.canParse(written) ? new URL(written) : undefined;
  if (url === undefined || !isPlain(url) || given.includes('*') || !isHost(url.hostname)) throw new Error(wrong);
  return { kind: 'exact', scheme: url.protocol === 'http:' ? 'http:' : 'https:', host: url.hostname, port: url.port };
}

const wrong = 'It must be hosts like hooks.example.com, 10.0.0.5:8443, http://127.0.0.1:9000, *.example.com or *.';

const isPlain = ({ username, password, pathname, search, hash }: URL): boolean =>
  `${username}${password}${search}${hash}` === '' && pathname === '/';
const isHost = (host: string): boolean => isIP(host.replace(/^\[|\]$/g, '')) !== 0 || name.test(host);

/** How a URL may be reached: `anywhere` where the operator chose this very host, `public` where a pattern did. */
export type Reach = 'anywhere' | 'public';

export function reachOf(url: URL, hosts: readonly WebhookHost[]): Reach | undefined {
  const host = url.hostname.toLowerCase();
  const exact = hosts.some(
    (entry) =>
      entry.kind === 'exact' && entry.host === host && entry.port === url.port && entry.scheme === url.protocol,
  );
  if (exact) return 'anywhere';
  // A pattern means names on the standard port of HTTPS.
  if (url.protocol !== 'https:' || url.port !== '' || isIP(host.replace(/^\[|\]$/g, '')) !== 0) return undefined;
  const matches = hosts.some(
    (entry) => entry.kind === 'any' || (entry.kind === 'below' && host.endsWith(entry.suffix)),
  );
  return matches ? 'public' : undefined;
}
