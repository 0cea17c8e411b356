/** Owns the reading of an organization's current devices and groups, in pages and time slices. */
import type { OrganizationId } from '../../../policy/ids.ts';
import type { ShortSteps } from '../data/short-steps.ts';
import type { Entry, Heads, Projection, StateQuery } from '../data/change-log.ts';

/** Rows in one read. Records of groups may have some megabytes. */
const rows = { device: 500, 'security-groups': 4 } as const satisfies Partial<Record<Projection, number>>;

/** What the models read of the log; the promises are those of `changeLogIn`. */
export interface LogReader {
  heads(orgs: readonly OrganizationId[]): Promise<Heads>;
  readChanges(org: OrganizationId, after: number, limit: number, bytes: number): Promise<readonly Entry[] | undefined>;
  readState(org: OrganizationId, query: StateQuery): Promise<readonly Entry[]>;
}

/** Gives `take` every record. One that changes meanwhile may come twice, and then the later state comes last. */
export async function readState(
  log: Pick<LogReader, 'readState'>,
  org: OrganizationId,
  slices: ShortSteps,
  take: (entry: Entry) => void | Promise<void>,
): Promise<void> {
  for (const kind of ['device', 'security-groups'] as const) {
    for (let after = 0; ;) {
      const entries = await log.readState(org, { kinds: [kind], after, limit: rows[kind], deletions: false });
      for (const entry of entries) {
        await slices.next();
        await take(entry);
      }
      const last = entries.at(-1);
      if (last === undefined || entries.length < rows[kind]) break;
      after = last.revision;
    }
  }
}
