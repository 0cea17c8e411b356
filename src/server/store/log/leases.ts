/** Owns leases in the database, by its clock, so that the clocks of servers may differ. */
import { statement } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';

export type LeasedWork = 'audit_log' | 'retention';

/** Values: kind, holder, milliseconds. */
const claimLease = statement<{ kind: string }>(
  'claim_lease',
  `UPDATE leases SET holder = $2::uuid, until = clock_timestamp() + $3::integer * interval '1 millisecond'
   WHERE kind = $1 AND (holder = $2::uuid OR until < clock_timestamp()) RETURNING kind`,
);
/** Values: holder. */
const releaseLeases = statement<never>(
  'release_leases',
  `UPDATE leases SET until = '-infinity' WHERE holder = $1::uuid`,
);

export const leasesIn = ({ writes }: Pick<Context, 'writes'>) => ({
  /** Whether this holder does the work, from now on for so long; no other holder is told so meanwhile. A holder may renew it at any time. */
  claim: async (work: LeasedWork, holder: string, forMs: number): Promise<boolean> =>
    (await writes.run(claimLease, [work, holder, forMs])).length > 0,

  /** Another holder may begin at once. */
  async release(holder: string): Promise<void> {
    await writes.run(releaseLeases, [holder]);
  },
});
