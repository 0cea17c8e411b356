/**
 * Owns the reading of a record's `trial` field from the server: either all of it is understood, or none of it is used.
 */
import { readSelectors } from '../fleet/read-peers.ts';
import { parseGroupId, isUuid } from '../ids.ts';
import { field, isObject, type JsonObject } from '../json.ts';
import { at, Problems } from '../problem.ts';
import { refuseUnknownFields } from '../validate.ts';
import type { ListBefore, Trial } from '../rule.ts';

const trialFields = ['id', 'started_at', 'ends_at', 'by', 'scope', 'before'];

/** Every problem goes to `problems`; the answer is complete only where none was added. */
export function readTrial<Before>(
  value: unknown,
  pointer: string,
  problems: Problems,
  readBefore: (before: JsonObject, pointer: string) => Before,
): Trial<Before> | undefined {
  if (value === undefined) return undefined;
  if (!isObject(value)) {
    problems.add(pointer, 'not_an_object', () => 'the trial is not an object.');
    return undefined;
  }
  refuseUnknownFields(value, trialFields, pointer, problems);
  const [id, ends_at, scope, before] = ['id', 'ends_at', 'scope', 'before'].map((name) => field(value, name));
  if (!isUuid(id)) problems.add(at(pointer, 'id'), 'not_an_id', () => 'the trial has no id.');
  if (typeof ends_at !== 'string' || Number.isNaN(Date.parse(ends_at)))
    problems.add(at(pointer, 'ends_at'), 'not_a_string', () => 'the trial does not say when it ends.');
  const selectors =
    scope === undefined ? undefined : readSelectors(scope, at(pointer, 'scope'), problems, Number.POSITIVE_INFINITY);
  const here = at(pointer, 'before');
  if (before !== null && !isObject(before))
    problems.add(here, 'not_an_object', () => 'the trial does not say what was before.');
  return {
    id: String(id),
    ends_at: String(ends_at),
    ...(selectors && { scope: selectors }),
    before: isObject(before) ? readBefore(before, here) : null,
  };
}

/** The trial of a device's list. */
export function readListTrial(value: unknown, problems: Problems): Trial<ListBefore> | undefined {
  return readTrial(value, '/trial', problems, (before, pointer) => {
    refuseUnknownFields(before, ['security_groups'], pointer, problems);
    const list = field(before, 'security_groups') ?? [];
    if (Array.isArray(list) && list.every(isUuid)) return { security_groups: list.map((id) => parseGroupId(id)) };
    problems.add(at(pointer, 'security_groups'), 'not_an_array', () => 'the list before is not a list of groups.');
    return { security_groups: [] };
  });
}
