/** Owns the refusal of writes in a transaction that would leave devices with only the default group (reference 1.3 (5)). */
import * as decide from '../../../organization/decide/outcome.ts';
import type { Organization } from '../../../organization/organization.ts';
import type { OpeningQuestion } from '../../../organization/openings.ts';
import type { Locked } from '../write/transaction.ts';

/** After the write: the caller takes it back where this throws. */
export async function refuseOpened(
  { tx, model }: Pick<Locked, 'tx' | 'model'>,
  before: Organization,
  question?: OpeningQuestion,
): Promise<void> {
  await model.run(decide.refuseOpened(before, await model.read(tx), question));
}
