/** Owns the parsing of a watch request: it reports every problem at once, before any stream begins (reference 2.5). */
import type { RequestProblem } from '../../api/codes.ts';
import { check } from '../../api/validate.ts';
import { WatchRequest } from '../../api/watch.ts';
import { at, join, type Found } from '../../policy/problem.ts';

const kindOf = (item: unknown): unknown =>
  typeof item === 'object' && item !== null && 'kind' in item ? item.kind : undefined;

/** Every item whose kind another item before it has asked for. */
function repeated(body: unknown): readonly RequestProblem[] {
  if (!Array.isArray(body)) return [];
  const kinds = (body as readonly unknown[]).slice(0, 100).map((item) => kindOf(item));
  return kinds.flatMap((kind, index) =>
    typeof kind === 'string' && kinds.indexOf(kind) < index
      ? [
          {
            pointer: at(at('', index), 'kind'),
            code: 'duplicate',
            detail: `${JSON.stringify(kind.slice(0, 80))} is requested twice; send one item per kind.`,
          } as const,
        ]
      : [],
  );
}

/** Every item of another kind than `device` that asks for a view. */
function strangeViews(body: unknown): readonly RequestProblem[] {
  if (!Array.isArray(body)) return [];
  return (body as readonly unknown[]).slice(0, 100).flatMap((item, index) =>
    typeof item === 'object' && item !== null && 'view' in item && kindOf(item) !== 'device'
      ? [
          {
            pointer: at(at('', index), 'view'),
            code: 'view_of_device',
            detail: 'Only items of kind "device" have a view.',
          } as const,
        ]
      : [],
  );
}

export const watchProblems = (body: unknown): Found<RequestProblem> => {
  const found = join(check(WatchRequest, body), repeated(body));
  const known = new Set(found.problems.map(({ pointer }) => pointer));
  return join(
    found,
    strangeViews(body).filter(({ pointer }) => !known.has(pointer)),
  );
};
