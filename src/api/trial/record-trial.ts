/** Owns the wire form of a trial on the record that is being tried (reference 4.15). */
import { Type, type TSchema } from 'typebox';
import type { TrialId, UserId } from '../../policy/ids.ts';
import { id, strict, Timestamp } from '../scalar.ts';

/** What a trial says of itself, on the records and as a resource. */
export const trialFields = <Selector extends TSchema>(selector: Selector) => ({
  id: id<TrialId>('The trial.'),
  started_at: Timestamp,
  ends_at: Type.String({
    format: 'date-time',
    description: 'From then on the record is what it was before, on the server and on every device.',
  }),
  by: id<UserId>('Who started it.'),
  scope: Type.Optional(
    Type.Array(selector, {
      description: 'The devices that try the change; omitted: all of them. Others keep `before`.',
    }),
  ),
});

/** The trial of a record; `before`: its fields as they were. */
export const recordTrial = <Selector extends TSchema, Before extends TSchema>(selector: Selector, before: Before) =>
  Type.Optional(
    Type.Object(
      { ...trialFields(selector), before },
      { ...strict, description: 'Only while a change is being tried.' },
    ),
  );
