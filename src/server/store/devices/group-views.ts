/**
 * Owns how devices' lists change who sees a user's group: the group enters everyone's view with the first device that
 * holds it and leaves with the last. Each change takes a revision of its own (reference 5 (2)).
 */
import type { Made } from '../../../organization/decide/records.ts';
import { statement } from '../postgres/sql.ts';
import type { GroupState } from '../write/records/records.ts';
import type { Locked } from '../write/transaction.ts';

/** Which of these groups a device lists, or listed before the change that is being tried. Values: groups. */
const findListed = statement<{ id: string }>(
  'find_listed_groups',
  `SELECT g.id FROM unnest($1::uuid[]) AS g (id) WHERE EXISTS (SELECT FROM devices d WHERE d.listed @> ARRAY[g.id] AND d.listed <> '{}')`,
);

type Place = Pick<Locked, 'tx' | 'records'>;

/** Users' groups among these, in the order of their ids. */
async function usersGroups({ records }: Place, ids: readonly string[]): Promise<readonly GroupState[]> {
  await records.load({ groups: ids });
  const groups = [...new Set(ids)].toSorted().flatMap((id) => records.group(id) ?? []);
  return groups.filter(({ record }) => record.user_id !== undefined);
}

/** A group that becomes visible comes before the device that holds it, so that no reader meets an unknown group. */
export async function enterView(place: Place, ids: readonly string[], made: Made): Promise<void> {
  for (const { record, isApplied } of await usersGroups(place, ids))
    if (!isApplied) place.records.putGroup(record, made, { isApplied: true });
}

/** And it leaves after the last device that held it. The log shows that only to the owner; everyone else gets the departure. */
export async function leaveView(place: Place, ids: readonly string[], made: Made): Promise<void> {
  const groups = (await usersGroups(place, ids)).filter(({ isApplied }) => isApplied);
  if (groups.length === 0) return;
  await place.records.flush();
  const listed = await place.tx.run(findListed, [groups.map(({ id }) => id)]);
  const held = new Set(listed.map(({ id }) => id));
  for (const { id, record } of groups)
    if (!held.has(id)) place.records.putGroup(record, made, { isApplied: false, leaves: true });
}
