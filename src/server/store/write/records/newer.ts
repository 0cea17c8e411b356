/**
 * Owns the refusal to write a record that has unknown fields. A server of a later version may have written them. This
 * program shows the whole record, but does not write it: the record would lose the unknown fields (reference 4.5 (6)).
 */
import { isKnownDevice, isKnownGroup } from '../../../../api/known-fields.ts';
import { refuse } from '../../../problems.ts';

export const isKnownRecord = (what: 'device' | 'group', record: object): boolean =>
  (what === 'device' ? isKnownDevice : isKnownGroup)(record);

/** `record`: a state, or the fields of it that are to be written again. */
export function refuseNewer(what: 'device' | 'group', record: object): void {
  if (!isKnownRecord(what, record)) refuse({ code: 'newer_record', what });
}
