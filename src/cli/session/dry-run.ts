/** Owns the promise of `--dry-run`: no request that writes leaves the program. A command without a preview of its own shows the request that it did not send. */
import { RingfenceError } from '../../client/error.ts';

/** Ends a command before its first write. */
class DryRunEnd extends Error {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly body: string | undefined;

  constructor(method: string, url: string, body: string | undefined) {
    super('nothing was written');
    const { pathname, search } = new URL(url);
    this.method = method;
    this.path = `${pathname}${search}`;
    this.body = body;
  }
}

/** Requests that write nothing though they have a body. */
const readOnly = /\/simulate$/;

/** Throws unless the request only reads. */
export function refuseWrite(url: string, { method, body }: { readonly method: string; readonly body?: string }): void {
  if (method !== 'GET' && !readOnly.test(new URL(url).pathname)) throw new DryRunEnd(method, url, body);
}

/** What a dry run did not send; undefined where the error is another one. */
export function dryRunLines(error: unknown): readonly string[] | undefined {
  const end = error instanceof RingfenceError ? error.cause : error;
  if (!(end instanceof DryRunEnd)) return undefined;
  const body = end.body === undefined || end.body === '{}' ? '' : ` with ${end.body}`;
  return [`The command would send ${end.method} ${end.path}${body}`, 'Nothing was written.'];
}
