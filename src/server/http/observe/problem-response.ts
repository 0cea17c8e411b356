/** Owns the response to a failed request: status, headers and body for the caller, the cause for the log. */
import { problemContentType } from '../../../api/codes.ts';
import { withoutSecrets } from '../../identity/secret.ts';
import { problemBody, toHttpError } from '../../problems.ts';
import { pathOf } from '../request/path.ts';
import type { Log } from './log.ts';

export interface ProblemResponse {
  readonly status: number;
  /** Besides those that every answer carries. Names are in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export function problemResponse(
  failure: unknown,
  { id, method, url }: { readonly id: string; readonly method: string; readonly url: string },
  { log, health }: { readonly log: Log; readonly health: { readonly draining: boolean } },
): ProblemResponse {
  const error = toHttpError(failure);
  const path = pathOf(url);
  if (error.status >= 500) {
    const about = { req: id, method, path: withoutSecrets(path) };
    // A server that stops refuses what comes meanwhile: that is no news for its operator.
    const level = error.status !== 503 ? 'error' : health.draining ? 'debug' : 'warn';
    log[level]({ ...about, err: error.cause ?? error }, error.message);
  }
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(error.headers)) headers[name.toLowerCase()] = value;
  headers['content-type'] = problemContentType;
  return { status: error.status, headers, body: problemBody(error, { path, id }) };
}
