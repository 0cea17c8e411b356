/**
 * Owns the protection against forged requests (CSRF). A browser adds the session cookie also to requests that another
 * site triggers. So a write by cookie must carry a header that only our own pages can set, and the browser must report
 * that it comes from them (reference 5 (13)).
 */
import type { IncomingHttpHeaders } from 'node:http';
import { csrfHeader } from '../../../api/sign-in-paths.ts';
import { HttpError } from '../../problems.ts';

const reading: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

export function refuseForgery(
  { method, headers }: { readonly method: string; readonly headers: IncomingHttpHeaders },
  origin: string,
): void {
  if (reading.has(method)) return;
  const site = headers['sec-fetch-site'];
  const elsewhere =
    (site !== undefined && site !== 'same-origin') || (headers.origin !== undefined && headers.origin !== origin);
  if (elsewhere)
    throw new HttpError('forbidden', 'A browser session works only for requests from the pages of this server.');
  if (headers[csrfHeader] === undefined) {
    throw new HttpError('forbidden', 'A request with a browser session needs the header `X-Ringfence-Csrf: 1`.');
  }
}
