/** Owns the moment of the past that a list is asked for: by a revision or by a time (reference 4.8 (4)). */
import type { OrganizationId } from '../../../policy/ids.ts';
import type { Principal } from '../../identity/authenticate.ts';
import { HttpError, invalid, problemTable, StoreError } from '../../problems.ts';
import type { Store } from '../../store/open.ts';

interface PastCall {
  readonly params: { readonly org_id: OrganizationId };
  readonly query: { readonly at_revision?: number | undefined; readonly at?: string | undefined };
  readonly principal: Pick<Principal, 'kind'>;
}

/** The revision that the list is to show; undefined for the present. */
export async function pastRevision(
  { params, query: { at_revision, at }, principal }: PastCall,
  { history }: Pick<Store, 'history'>,
): Promise<number | undefined> {
  if (at_revision === undefined && at === undefined) return undefined;
  if (principal.kind !== 'user') throw new HttpError('forbidden', 'A device token cannot read the history.');
  if (at === undefined) return at_revision;
  if (at_revision !== undefined)
    throw invalid([{ pointer: '/at', code: 'contradiction', detail: 'Give at or at_revision, not both.' }]);
  return history.revisionAt(params.org_id, new Date(at));
}

/** A revision that is yet to come is a problem of the query. */
export function aboutRevision(error: unknown): never {
  if (!(error instanceof StoreError) || error.problem.code !== 'revision_ahead') throw error;
  throw problemTable.revision_ahead({ head: error.problem.head, pointer: '/at_revision' });
}
