/** Owns the answer to paths and methods that lead nowhere: 404, or 405 with what would be allowed. */
import { operations } from '../../../api/operations.ts';
import { operationIds, pathsOf } from '../../../api/paths.ts';
import { HttpError } from '../errors.ts';

interface Known {
  readonly pattern: RegExp;
  readonly methods: readonly string[];
}

const exact = (path: string): RegExp => new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}$`);
const withHead = (method: string): string[] => (method === 'GET' ? ['GET', 'HEAD'] : [method]);

const known: readonly Known[] = operationIds.flatMap((id) =>
  pathsOf(id).map((path) => ({ pattern: exact(path), methods: withHead(operations[id].method) })),
);

/** What may be asked of a path; empty when it leads nowhere. `pages` are the paths besides the operations, for reading only. */
export function allowedMethods(path: string, pages: readonly string[]): readonly string[] {
  const methods = known.filter(({ pattern }) => pattern.test(path)).flatMap((entry) => entry.methods);
  if (pages.includes(path)) methods.push('GET', 'HEAD');
  return [...new Set(methods)];
}

export function unknownRoute(method: string, path: string, pages: readonly string[]): HttpError {
  const allowed = allowedMethods(path, pages);
  if (allowed.length === 0) return new HttpError('not_found', 'There is nothing at this path.');
  return new HttpError('method_not_allowed', `${method} is not possible here; possible: ${allowed.join(', ')}.`, {
    headers: { Allow: allowed.join(', ') },
  });
}
