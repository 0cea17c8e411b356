/** Owns the promise of `--dry-run`: nothing is written. A command without a preview of its own has its write judged by the server, where that can, and says what it did not do. */
import { operationIds, paths } from '../../api/paths.ts';
import { RingfenceError } from '../../client/error.ts';
import { actionText } from '../../client/words/action.ts';

/** Ends a command before its first write. */
class DryRunEnd extends Error {
  readonly method: string;
  readonly path: string;
  readonly body: string | undefined;

  constructor(method: string, url: string, body: string | undefined) {
    super('nothing was written');
    this.method = method;
    this.path = new URL(url).pathname;
    this.body = body;
  }
}

/** Whether a request writes nothing though its method does: it asks for a preview. */
const isPreview = (url: URL): boolean =>
  url.pathname.endsWith('/simulate') || url.searchParams.get('dry_run') === 'true';

const operations = operationIds.map((id) => ({ id, method: paths[id][0], path: paths[id][1].split('/') }));

function operationAt(method: string, path: string): (typeof operations)[number] | undefined {
  const parts = path.split('/');
  const isOf = (one: (typeof operations)[number]): boolean =>
    one.method === method &&
    one.path.length === parts.length &&
    one.path.every((part, index) => part.startsWith('{') || part === parts[index]);
  return operations.find(isOf);
}

/** What a dry run asks in place of a write, and how it ends if that is not refused. */
export interface JudgedWrite {
  readonly url: string;
  readonly end: Error;
}

/** Undefined of a request that only reads. Throws where the server cannot judge the write: it is not sent. */
export async function judgedWrite(
  url: string,
  { method, body }: { readonly method: string; readonly body?: string },
): Promise<JudgedWrite | undefined> {
  const asked = new URL(url);
  if (method === 'GET' || isPreview(asked)) return undefined;
  const end = new DryRunEnd(method, url, body);
  const id = operationAt(method, asked.pathname)?.id;
  // The table of operations is large, and only a dry run needs it.
  const { operations: all } = await import('../../api/operations.ts');
  if (id === undefined || all[id].query?.properties['dry_run'] === undefined) throw end;
  asked.searchParams.set('dry_run', 'true');
  return { url: asked.href, end };
}

function valueWords(value: unknown): string {
  if (Array.isArray(value) && value.every((each) => typeof each === 'string')) return value.join(', ');
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function bodyWords(body: string | undefined): string {
  const fields = Object.entries(JSON.parse(body ?? '{}') as object).map(
    ([name, value]) => `${name.replaceAll('_', ' ')} ${valueWords(value)}`,
  );
  return fields.length === 0 ? '' : `, with ${fields.join(', ')}`;
}

/** What a dry run did not write, in words; undefined where the error is another one. */
export function dryRunLines(error: unknown): readonly string[] | undefined {
  const end = error instanceof RingfenceError ? error.cause : error;
  if (!(end instanceof DryRunEnd)) return undefined;
  const { method, path, body } = end;
  const known = operationAt(method, path);
  const what =
    known === undefined ? 'written' : actionText({ operation: known.id, credential: { kind: 'user_token' } });
  return [`This would have ${what}${bodyWords(body)}.`, 'Nothing was written.'];
}
