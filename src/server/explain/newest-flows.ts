/** Owns the search for the newest traffic of some kind: pages may be empty and still have a next one, so it goes through several, and ends. */
import type { OrganizationId } from '../../policy/ids.ts';
import type { FlowQuery, StoredFlow } from '../store/data/flows.ts';
import type { Store } from '../store/open.ts';

/** Pages of one search. Each of them looks at thousands of reports. */
const mostPages = 20;

export interface NewestFlows {
  readonly flows: readonly StoredFlow[];
  /** There may be more that was not looked at. */
  readonly more: boolean;
}

export async function newestFlows(
  { flows }: Pick<Store, 'flows'>,
  org: OrganizationId,
  query: Omit<FlowQuery, 'after'>,
): Promise<NewestFlows> {
  const found: StoredFlow[] = [];
  let after: string | undefined;
  for (let pages = 0; pages < mostPages; pages += 1) {
    const page = await flows.page(org, { ...query, after, limit: query.limit - found.length });
    found.push(...page.flows);
    after = page.next;
    if (after === undefined || found.length >= query.limit) break;
  }
  return { flows: found, more: after !== undefined };
}
