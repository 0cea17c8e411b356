/** Owns the refusal of writes that would leave devices with only the default group: no device becomes open by accident (reference 1.3 (5)). */
import type { Organization } from '../../../organization/organization.ts';
import { openedDevices, type OpeningQuestion } from '../../../organization/openings.ts';
import { refuse } from '../../problems.ts';
import type { Locked } from '../write/transaction.ts';

/** An answer names at most this many devices, and says how many more there are (reference 8 (7)). */
const mostNamed = 100;

/** Throws `would_open` where a device opens between these two. */
export async function refuseOpenedBetween(
  { model }: Pick<Locked, 'model'>,
  before: Organization,
  after: Organization,
  question?: OpeningQuestion,
): Promise<void> {
  const opened = await model.run(openedDevices(before, after, question));
  if (opened.length === 0) return;
  const devices = opened.slice(0, mostNamed).map(({ id, hostname }) => ({ id, hostname }));
  refuse({ code: 'would_open', devices, more: opened.length - devices.length });
}

/** The same after a write in this transaction: the caller takes the write back where this throws. */
export async function refuseOpened(
  locked: Pick<Locked, 'tx' | 'model'>,
  before: Organization,
  question?: OpeningQuestion,
): Promise<void> {
  await refuseOpenedBetween(locked, before, await locked.model.read(locked.tx), question);
}
