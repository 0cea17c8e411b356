/** Owns the answer to unknown paths and methods: 404, or 405 with the allowed methods. */
import { operations } from '../../../api/operations.ts';
import { operationIds, pathsOf } from '../../../api/paths.ts';
import { HttpError } from '../../problems.ts';

interface KnownPath {
  /** The segments of its path; a variable is undefined. */
  readonly segments: readonly (string | undefined)[];
  readonly methods: readonly string[];
}

const segmentsOf = (path: string): readonly (string | undefined)[] =>
  path.split('/').map((segment) => (segment.startsWith('{') ? undefined : segment));
const withHead = (method: string): string[] => (method === 'GET' ? ['GET', 'HEAD'] : [method]);

const known: readonly KnownPath[] = operationIds.flatMap((id) =>
  pathsOf(id).map((path) => ({ segments: segmentsOf(path), methods: withHead(operations[id].method) })),
);

const longest = Math.max(...known.map(({ segments }) => segments.length));

/** The methods that a path allows; empty for an unknown path. `pages` are the read-only paths besides the operations. */
function allowedMethods(path: string, pages: readonly string[]): readonly string[] {
  const given = path.split('/', longest + 1);
  const leadsTo = ({ segments }: KnownPath): boolean =>
    segments.length === given.length &&
    segments.every((segment, index) => (segment === undefined ? given[index] !== '' : segment === given[index]));
  const methods = known.filter(leadsTo).flatMap((entry) => entry.methods);
  if (pages.includes(path)) methods.push('GET', 'HEAD');
  return [...new Set(methods)];
}

export function unknownRoute(method: string, path: string, pages: readonly string[]): HttpError {
  const allowed = allowedMethods(path, pages);
  if (allowed.length === 0) return new HttpError('not_found', 'There is nothing at this path.');
  return new HttpError(
    'method_not_allowed',
    `This path does not support ${method}. Supported: ${allowed.join(', ')}.`,
    {
      headers: { Allow: allowed.join(', ') },
    },
  );
}
