/** Owns the reading of an organization's current devices and groups, in pages and time slices. */
import type { OrganizationId } from '../../../policy/ids.ts';
import type { ShortSteps } from '../data/short-steps.ts';
import type { Entry, Heads, StatePage, StateQuery } from '../data/change-log.ts';

/** Of one read: some hundred devices. */
const bytes = 262_144;

/** What the models read of the log; the promises are those of `changeLogIn`. */
export interface LogReader {
  heads(orgs: readonly OrganizationId[]): Promise<Heads>;
  readChanges(org: OrganizationId, after: number, limit: number, bytes: number): Promise<readonly Entry[] | undefined>;
  readState(org: OrganizationId, query: StateQuery): Promise<StatePage>;
}

/** Gives `take` every record. One that changes meanwhile may come twice, and then the later state comes last. */
export async function readState(
  log: Pick<LogReader, 'readState'>,
  org: OrganizationId,
  slices: ShortSteps,
  take: (entry: Entry) => void | Promise<void>,
): Promise<void> {
  for (const projection of ['device', 'security-groups'] as const) {
    for (let after: number | undefined = 0; after !== undefined;) {
      const { entries, through }: StatePage = await log.readState(org, { projection, after, bytes, deletions: false });
      for (const entry of entries) {
        await slices.next();
        await take(entry);
      }
      after = through;
    }
  }
}
