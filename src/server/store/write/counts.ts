/** Owns the count of what an organization has that its head does not count, under its lock. */
import type { Runner } from '../postgres/connection.ts';
import { statement } from '../postgres/sql.ts';

interface Counts {
  readonly members: number;
  readonly invitations: number;
  readonly webhooks: number;
}

/** Values: organization. */
const countRecords = statement<Counts>(
  'count_records',
  `SELECT (SELECT count(*) FROM members WHERE org_id = $1) AS members, (SELECT count(*) FROM invitations WHERE org_id = $1) AS invitations,
     (SELECT count(*) FROM webhooks WHERE org_id = $1) AS webhooks`,
);

export async function countsOf(tx: Runner, org: string): Promise<Counts> {
  const [counts] = await tx.run(countRecords, [org]);
  return counts ?? { members: 0, invitations: 0, webhooks: 0 };
}
