/** Owns the wait at the end of a credential: until no write with this credential can still commit. */
import { parseOrganizationId } from '../../../policy/ids.ts';
import { StoreError } from '../../problems.ts';
import { statement } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';

const organizationsOf = statement<{ org_id: string }>(
  'organizations_of',
  'SELECT org_id FROM members WHERE user_id = $1',
);

/**
 * To be called when the end of a credential of this user is committed: a failure is `outcome_unknown`, since the end happened. A write that saw the credential before commits before this resolves, or
 * looks again and finds it gone. The end of a credential pays for this, so that no write has to lock the credential's row.
 */
export async function drainWrites({ reads, writer }: Pick<Context, 'reads' | 'writer'>, user: string): Promise<void> {
  try {
    const places = await reads.run(organizationsOf, [user]);
    await Promise.all(places.map(({ org_id }) => writer.drain(parseOrganizationId(org_id))));
  } catch (cause) {
    throw new StoreError(
      { code: 'outcome_unknown' },
      { cause, message: 'cannot wait for the writes of a revoked credential' },
    );
  }
}
