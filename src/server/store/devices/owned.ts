/** Owns what belongs to a member of an organization. */
import type { Runner } from '../postgres/connection.ts';
import { recordsOfUser } from './statements.ts';

/** The ids of its devices and groups, each in order. */
export async function ownedBy(
  runner: Runner,
  org: string,
  user: string,
): Promise<{ readonly devices: readonly string[]; readonly groups: readonly string[] }> {
  const rows = await runner.run(recordsOfUser, [org, user]);
  const idsOf = (of: 'device' | 'group'): readonly string[] =>
    rows.flatMap(({ id, kind }) => (kind === of ? [id] : []));
  return { devices: idsOf('device'), groups: idsOf('group') };
}
