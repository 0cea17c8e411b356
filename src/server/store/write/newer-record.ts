/**
 * Owns the refusal to write a record that has unknown fields. A server of a later version may have written them. This
 * program shows the whole record, but does not write it: the record would lose the unknown fields (reference 4.5 (6)).
 */
import { deviceFields, groupFields, isKnownDevice, isKnownGroup, type KnownFields } from '../../../api/known-fields.ts';
import { refuse } from '../../problems.ts';

/** Whether a JSON value, an object or a list of them, has a field that is not known. */
function hasOtherFields(value: string, known: KnownFields, depth = 0): string {
  const [item, field] = [`item${depth}`, `field${depth}`];
  const inner = Object.entries(known).flatMap(([name, fields]) =>
    fields === undefined ? [] : [`WHEN '${name}' THEN ${hasOtherFields(`${field}.value`, fields, depth + 1)}`],
  );
  const inside = inner.length === 0 ? '' : `OR CASE ${field}.key ${inner.join(' ')} ELSE false END`;
  return `EXISTS (
    SELECT FROM json_array_elements(CASE json_typeof(${value}) WHEN 'array' THEN ${value} ELSE json_build_array(${value}) END) AS ${item} (value),
      json_each(CASE json_typeof(${item}.value) WHEN 'object' THEN ${item}.value WHEN 'null' THEN '{}' ELSE '{"?":0}' END) AS ${field}
    WHERE ${field}.key <> ALL ('{${Object.keys(known).join(',')}}'::text[]) ${inside})`;
}

/**
 * A body as it is stored, and as this program would write it from the columns. Where they are equal, there is no other field outside of columns that
 * are JSON themselves. Comparing costs little, so the names of fields are read only where the bodies differ or such a column holds something.
 */
export interface StoredBody {
  readonly body: string;
  readonly written: string;
  /** Whether no column of JSON holds an object. */
  readonly isFlat: string;
}

/** A branch of the refusals of an update, over the current record. */
const refuseNewer = (stored: StoredBody, known: KnownFields): string =>
  `WHEN ${isNewer(stored, known)} THEN 'newer_record'`;

const isNewer = ({ body, written, isFlat }: StoredBody, known: KnownFields): string =>
  `CASE WHEN ${isFlat} AND ${body} = ${written} THEN false ELSE ${hasOtherFields(`(${body} || '}')::json`, known)} END`;

export const refuseNewerDevice = (stored: StoredBody): string => refuseNewer(stored, deviceFields);
export const refuseNewerGroup = (stored: StoredBody): string => refuseNewer(stored, groupFields);

/** Whether a device has a field that is not known. */
export const isNewerDevice = (stored: StoredBody): string => isNewer(stored, deviceFields);
/** Whether a group has a field that is not known. */
export const isNewerGroup = (stored: StoredBody): string => isNewer(stored, groupFields);

/** A state, or the fields of it that are to be written again. */
export function refuseNewerState(what: 'device' | 'group', state: object): void {
  const isKnown = what === 'device' ? isKnownDevice : isKnownGroup;
  if (!isKnown(state)) refuse({ code: 'newer_record', what });
}
