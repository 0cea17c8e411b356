/** Owns the wait at the end of a credential: until no write with this credential can still commit. */
import { parseOrganizationId } from '../../../policy/ids.ts';
import { StoreError } from '../../problems.ts';
import type { Context } from '../write/context.ts';
import { findPlaces } from '../write/user-lock.ts';

/**
 * To be called when the end of a credential of this user is committed: a failure is `outcome_unknown`, since the end happened. A write that saw the credential before commits before this resolves, or
 * looks again and finds it gone. The end of a credential pays for this, so that no write has to lock the credential's row.
 */
export async function drainWrites({ reads, writer }: Pick<Context, 'reads' | 'writer'>, user: string): Promise<void> {
  try {
    const places = await reads.run(findPlaces, [user]);
    await Promise.all(places.map(({ id }) => writer.drain(parseOrganizationId(id))));
  } catch (cause) {
    throw new StoreError(
      { code: 'outcome_unknown' },
      { cause, message: 'cannot wait for the writes of a revoked credential' },
    );
  }
}
