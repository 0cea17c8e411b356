/** Owns leases in the database, by its clock, so that the clocks of servers may differ. */
import type { Leases } from '../contract/leases.ts';
import { statement } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';

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

export const leasesIn = ({ writes }: Pick<Context, 'writes'>): Leases => ({
  claim: async (work, holder, forMs) => (await writes.run(claimLease, [work, holder, forMs])).length > 0,

  async release(holder) {
    await writes.run(releaseLeases, [holder]);
  },
});
