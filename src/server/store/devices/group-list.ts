/** Owns what a device's list of groups may contain, as it is judged in a transaction. */
import * as decide from '../../../organization/decide/list.ts';
import type { Context } from '../write/context.ts';
import type { Locked } from '../write/transaction.ts';

export async function checkList(
  { records }: Pick<Locked, 'records'>,
  { phase, quotas }: Pick<Context, 'phase' | 'quotas'>,
  asked: decide.ListWanted,
): Promise<decide.CheckedList> {
  await records.load({ groups: [...asked.list, ...asked.oldList] });
  return decide.checkList(asked, { phase, quotas, group: (id) => records.group(id) });
}
