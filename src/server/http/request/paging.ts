/** Owns lists: reading their query, cutting a page, and pointing to the next. */
import type { RequestProblem } from '../../../api/codes.ts';
import { operations, type QueryOf } from '../../../api/operations.ts';
import type { OperationId } from '../../../api/paths.ts';
import { check } from '../../../api/validate.ts';
import type { ListAnswer } from '../call.ts';
import { join } from '../../../policy/problem.ts';
import { refuse } from '../errors.ts';

/** Turns the text of a parameter into what its schema wants, where it plainly is that; else leaves it for the check to refuse. */
function read(schema: { readonly type?: string }, text: unknown): unknown {
  if (schema.type === 'integer' && typeof text === 'string' && /^-?\d{1,17}$/.test(text)) return Number(text);
  if (schema.type === 'boolean' && (text === 'true' || text === '')) return true;
  if (schema.type === 'boolean' && text === 'false') return false;
  if (schema.type === 'string' && typeof text === 'string') return text.toLowerCase();
  return text;
}

/** The query parameters that the operation knows; others are ignored, as proxies and tools add their own. */
export function parseQuery<Id extends OperationId>(id: Id, given: Readonly<Record<string, unknown>>): QueryOf<Id> {
  const schema = operations[id].query;
  if (schema === undefined) return {} as QueryOf<Id>;
  const known: [string, unknown][] = [];
  const twice: RequestProblem[] = [];
  for (const [name, inner] of Object.entries(schema.properties)) {
    const text = Object.hasOwn(given, name) ? given[name] : undefined;
    if (Array.isArray(text))
      twice.push({ pointer: `/${name}`, code: 'duplicate', detail: `${name} is given more than once.` });
    else if (text !== undefined) known.push([name, read(inner, text)]);
  }
  const query = Object.fromEntries(known);
  refuse(join(check(schema, query), twice));
  return query as QueryOf<Id>;
}

/** Which part of a list is asked for. */
interface PageQuery {
  readonly limit?: number | undefined;
  readonly after?: string | undefined;
  readonly gt_revision?: number | undefined;
}

/** What to ask the store for: one more than the page holds tells whether another page follows. */
export const probe = (query: PageQuery): { limit?: number; after?: string; gt_revision?: number } => ({
  ...(query.limit === undefined ? {} : { limit: query.limit + 1 }),
  ...(query.after === undefined ? {} : { after: query.after }),
  ...(query.gt_revision === undefined ? {} : { gt_revision: query.gt_revision }),
});

/** Cuts the page and, where more follows, says at which address. */
export function page<T>(
  call: { readonly path: string; readonly query: PageQuery },
  rows: readonly T[],
  show: { readonly id: (row: T) => string; readonly json: (row: T) => string },
): ListAnswer {
  const { limit, gt_revision } = call.query;
  const shown = limit === undefined || rows.length <= limit ? rows : rows.slice(0, limit);
  const json = `[${shown.map(show.json).join(',')}]`;
  const last = shown.at(-1);
  if (limit === undefined || rows.length <= limit || last === undefined) return { kind: 'list', json };
  const revision = gt_revision === undefined ? '' : `&gt_revision=${gt_revision}`;
  return { kind: 'list', json, next: `${call.path}?limit=${limit}&after=${show.id(last)}${revision}` };
}
