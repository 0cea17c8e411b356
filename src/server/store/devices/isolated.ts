/** Owns the refusal to delete an isolated device in a transaction. */
import { holdIsolated } from '../../../organization/decide/caller.ts';
import type { DeviceContent } from '../../../organization/decide/records.ts';
import type { Actor } from '../data/actor.ts';
import { callersOf } from '../write/caller.ts';
import { now, type Stamps } from '../write/stamp.ts';
import type { Locked } from '../write/transaction.ts';

export async function refuseIsolated(
  context: Pick<Stamps, 'clock'>,
  { tx, org }: Pick<Locked, 'tx' | 'org'>,
  by: Actor,
  devices: readonly DeviceContent[],
): Promise<void> {
  if (devices.every(({ isolated }) => isolated === undefined)) return;
  const [caller] = await callersOf(tx, org, now(context), [{ by }]);
  holdIsolated(by, caller ?? { role: null });
}
