/** Owns the reading of revisions: heads, the exact log, states to resume from, and the retention of both. */
import type { WatchKind } from '../../../api/kinds.ts';
import { parseOrganizationId, parseTokenId, parseUserId, type OrganizationId } from '../../../policy/ids.ts';
import type { Runner } from '../postgres/connection.ts';
import type { Context } from '../write/context.ts';
import { onlyFor } from '../schema/fragments.ts';
import type { Rows } from '../data/page.ts';
import { rowsWithin, statement, withinBytes, type PageRow } from '../postgres/sql.ts';
import type {
  EndedRight,
  Head,
  Projection,
  Heads,
  Resumption,
  Entry,
  StatePage,
  StateQuery,
  Hint,
} from '../data/change-log.ts';
import { checkListing, forgetDeletions, readResumption } from './gaps.ts';
import { Durability } from './durability.ts';
import { entryColumns, entryOf, type EntryRow } from '../write/log-entry.ts';

/**
 * For how long `heads` reports an ended right: far longer than a transaction may take, or than a server keeps its
 * streams without a connection to the database.
 */
const revocationMinutes = 10;

/** `purged` is the mark that servers of earlier versions set: they forget deletions of every kind below it. */
const readHeads = statement<{
  org_id: string;
  revision: number;
  gaps: number;
  purged: number;
  era: string;
  has_standbys: boolean;
}>(
  'read_heads',
  `SELECT org_id, revision, current_setting('synchronous_standby_names') <> '' AS has_standbys, gaps, purged,
     (SELECT id FROM eras ORDER BY serial DESC LIMIT 1) AS era
   FROM heads WHERE org_id = ANY ($1::uuid[])`,
);
interface EndedRow {
  readonly through: string;
  /** Null in the one row that there is when nothing has ended. */
  readonly serial: number | null;
  readonly token_id: string | null;
  readonly org_id: string | null;
  readonly user_id: string | null;
}

/**
 * Values: `through` of an earlier answer, or null. `through` is the oldest transaction that was still in progress:
 * every ending that this answer cannot show was written by that transaction or a later one, so its transaction id is
 * not below `through`.
 */
const readEnded = statement<EndedRow>(
  'read_ended',
  `SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS through, r.serial, r.token_id, r.org_id, r.user_id
   FROM (SELECT 1) AS always LEFT JOIN revocations r
     ON r.transaction_id >= coalesce($1::text, '0')::xid8 AND r.revoked_at > clock_timestamp() - interval '${revocationMinutes} minutes'`,
);

/** Transactions of a database that was put in the place of another count anew: then what the other gave means nothing. */
async function endedRows(reads: Runner, since: string | undefined): Promise<readonly EndedRow[]> {
  const rows = await reads.run(readEnded, [since ?? null]);
  const [first] = rows;
  const wentBack = since !== undefined && first !== undefined && BigInt(first.through) < BigInt(since);
  return wentBack ? reads.run(readEnded, [null]) : rows;
}

/** Values: organization, after this revision, limit, bytes. */
const readChanges = statement<EntryRow & PageRow>(
  'read_changes',
  withinBytes(`SELECT ${entryColumns} FROM changes WHERE org_id = $1 AND revision > $2 ORDER BY revision LIMIT $3`, {
    bytes: '$4',
    length: 'octet_length(p.body)',
    order: 'p.revision',
  }),
);

/** Rows of a page, where their bytes allow as many. */
const pageRows = 4_096;

/** Values: organization, after this revision, rows, bytes. */
const page = (...parts: readonly string[]): string =>
  withinBytes(`SELECT * FROM (${parts.join(' UNION ALL ')}) AS states ORDER BY revision LIMIT $3`, {
    bytes: '$4',
    length: 'octet_length(p.body)',
    order: 'p.revision',
  });

const currentState: Readonly<Record<Projection, string>> = {
  device: `(SELECT revision, 'device' AS kind, 'change' AS type, id, body, NULL::uuid AS only_for, 0::bigint AS left_at, NULL::uuid AS hidden_from
    FROM devices WHERE org_id = $1 AND revision > $2 ORDER BY revision LIMIT $3)`,
  'device-identity': `(SELECT revision, 'device' AS kind, 'change' AS type, device_id AS id, body, NULL::uuid AS only_for, 0::bigint AS left_at, NULL::uuid AS hidden_from
    FROM device_identities WHERE org_id = $1 AND revision > $2 ORDER BY revision LIMIT $3)`,
  'security-groups': `(SELECT revision, 'security-groups' AS kind, 'change' AS type, id, body,
      ${onlyFor('g')} AS only_for, left_at, NULL::uuid AS hidden_from
    FROM security_groups g WHERE org_id = $1 AND revision > $2 ORDER BY revision LIMIT $3)`,
};
const deletions = (
  kind: WatchKind,
  body: string,
): string => `(SELECT revision, kind, type, id, ${body} AS body, only_for, left_at, NULL::uuid AS hidden_from
    FROM changes WHERE org_id = $1 AND revision > $2 AND type = 'delete' AND kind = '${kind}' ORDER BY revision LIMIT $3)`;

/** A departure is a row of its own, at its own revision: a reader that stops between it and later private changes has it. */
const departure = (owner: string): string =>
  `left_at AS revision, 'security-groups' AS kind, 'delete' AS type, id, '{"id":"' || id || '","org_id":"' || org_id || '"' AS body,
    NULL::uuid AS only_for, left_at, ${owner} AS hidden_from`;
const departures = [
  `(SELECT ${departure('user_id')} FROM security_groups
    WHERE org_id = $1 AND left_at > 0 AND left_at > $2 AND user_id IS NOT NULL AND NOT is_applied ORDER BY left_at LIMIT $3)`,
  `(SELECT ${departure('only_for')} FROM changes
    WHERE org_id = $1 AND left_at > 0 AND left_at > $2 AND type = 'delete' AND only_for IS NOT NULL ORDER BY left_at LIMIT $3)`,
];

type StateRow = EntryRow & PageRow;

/** One statement for each question that a stream may ask. */
const readState = {
  device: statement<StateRow>('read_devices', page(currentState.device)),
  'security-groups': statement<StateRow>('read_groups', page(currentState['security-groups'])),
  'device-identity': statement<StateRow>('read_identities', page(currentState['device-identity'])),
};
const readStateAndDeletions = {
  device: statement<StateRow>('resume_devices', page(currentState.device, deletions('device', 'body'))),
  'security-groups': statement<StateRow>(
    'resume_groups',
    page(currentState['security-groups'], deletions('security-groups', 'body'), ...departures),
  ),
  'device-identity': statement<StateRow>(
    'resume_identities',
    page(currentState['device-identity'], deletions('device', 'coalesce(identity, body)')),
  ),
};

/** One server at a time: the others find the lock taken and pass. */
const tryCompact = statement<{ locked: boolean }>(
  'try_compact',
  'SELECT pg_try_advisory_xact_lock(7264651002) AS locked',
);
/** Values: retention in milliseconds, how many at once. */
const dropChanges = statement<{ count: number }>(
  'drop_changes',
  `WITH dropped AS (DELETE FROM changes WHERE ctid = ANY (ARRAY(
     SELECT ctid FROM changes WHERE type = 'change' AND committed_at < clock_timestamp() - $1 * interval '1 millisecond' LIMIT $2)) RETURNING 1)
   SELECT count(*)::integer AS count FROM dropped`,
);
/** Entries that one transaction drops: a statement must end in time, however many changes a burst left. */
const batch = 20_000;
const dropRevocations = statement<never>(
  'drop_revocations',
  `DELETE FROM revocations WHERE revoked_at < clock_timestamp() - interval '${revocationMinutes} minutes'`,
);
export interface Retention {
  readonly logMs: number;
  readonly deletionsMs: number;
}

export function changeLogIn(
  context: Pick<Context, 'reads' | 'writes' | 'transactions' | 'hints' | 'guard'>,
  retention: Retention,
) {
  const { reads, transactions, hints, guard } = context;
  const durability = new Durability(context.writes);
  let hasStandbys = false;
  hints.on(({ logged }) => {
    for (const { organization_id, entries } of logged)
      durability.confirm(organization_id, entries.at(-1)?.revision ?? 0);
  });
  /** Where standbys are synchronous, what streams show must be durable there. */
  const durable = async <Row extends { readonly revision: number }>(
    org: OrganizationId,
    rows: readonly Row[],
  ): Promise<readonly Row[]> => {
    if (hasStandbys) await durability.check([[org, rows.at(-1)?.revision ?? 0]]);
    return rows;
  };
  const readOnce = async (orgs: readonly OrganizationId[], endedSince: string | undefined) => {
    const mark = guard.mark(orgs);
    const [heads, ended] = await Promise.all([reads.run(readHeads, [orgs]), endedRows(reads, endedSince)]);
    return { heads, ended, follows: guard.follows(mark, heads, BigInt(ended[0]?.through ?? 0)) };
  };
  return {
    /**
     * Two queries, however many organizations. `endedSince`: the `endedThrough` of an earlier answer. No head is below one that this server has seen: where
     * the database lost a part of its history, every organization has leapt before this answers.
     */
    async heads(orgs: readonly OrganizationId[], endedSince?: string): Promise<Heads> {
      let read = await readOnce(orgs, endedSince);
      if (!read.follows) {
        await guard.verify();
        read = await readOnce(orgs, endedSince);
      }
      const { heads, ended } = read;
      const organizations = new Map(
        heads.map(({ org_id, revision, gaps, purged, era }): [OrganizationId, Head] => [
          parseOrganizationId(org_id),
          { revision, version: `${gaps} ${purged} ${era}` },
        ]),
      );
      hasStandbys = heads[0]?.has_standbys ?? hasStandbys;
      if (hasStandbys) await durability.check([...organizations].map(([org, { revision }]) => [org, revision]));

      return {
        organizations,
        endedThrough: ended[0]?.through ?? '0',
        ended: ended.flatMap(({ serial, token_id, org_id, user_id }): readonly EndedRight[] => {
          if (serial === null) return [];
          if (token_id !== null) return [{ serial, token_id: parseTokenId(token_id) }];
          if (org_id === null || user_id === null) return [];
          return [{ serial, organization_id: parseOrganizationId(org_id), user_id: parseUserId(user_id) }];
        }),
      };
    },

    /**
     * From where readers can resume. A gap holds no revision that a record has, so that a reader that just listed can resume. Gaps never
     * go away: an answer holds for every later moment.
     */
    resumption: (org: OrganizationId): Promise<Resumption> => readResumption(reads, org),
    /** Fails with `revision_gone` where a listing after this revision would mislead its reader: it is above the head, or discarded (reference 4.5 (5)). */
    checkListing: (org: OrganizationId, revision: number | undefined): Promise<void> =>
      checkListing(reads, org, revision),

    /**
     * The exact log after a revision, ascending, without a hole: the first entry is `after` + 1, each next one more.
     * Undefined when the log no longer reaches back that far (or jumps): resync with `readState`. With `bytes` no more than that of records, and one; `isCut`
     * then, where they are fewer for it.
     */
    async readChanges(
      org: OrganizationId,
      after: number,
      limit: number,
      bytes?: number,
    ): Promise<Rows<Entry> | undefined> {
      const rows = await durable(org, await reads.run(readChanges, [org, after, limit, bytes ?? null]));
      const whole = rows.every(({ revision }, index) => revision === after + 1 + index);
      return whole ? rowsWithin(rows, entryOf) : undefined;
    },

    /**
     * The newest state of every resource that changed after a revision, in one projection, ascending by revision. With
     * `deletions` also those, and departures of users' groups (`hidden_from`), so that one revision may come twice. Pages need no
     * common snapshot: a record that changes meanwhile moves to a higher revision and is met there. Devices by identity come with `json` and
     * `revision` as that view shows them.
     */
    async readState(
      org: OrganizationId,
      { projection, after, bytes, deletions: withDeletions }: StateQuery,
    ): Promise<StatePage> {
      const asked = (withDeletions ? readStateAndDeletions : readState)[projection];
      const rows = await durable(org, await reads.run(asked, [org, after, pageRows, bytes]));
      const { page_rows: most = 0 } = rows[0] ?? {};
      const last = rows.at(-1)?.revision ?? 0;
      // Without the bound of bytes the page would be longer: it ends with a revision. Else it may end between two rows of one.
      const through = rows.length < most ? last : most < pageRows ? undefined : last - 1;
      const kept = through === undefined ? rows : rows.filter(({ revision }) => revision <= through);
      return { entries: kept.map((row) => entryOf(row)), through };
    },

    /** Called for every commit of this process at once, of this server's others soon, and of other servers through the database. Returns what ends it. */
    onHint(listener: (hint: Hint) => void): () => void {
      return hints.on(listener);
    },

    /** Forgets superseded log rows, and deletions past their retention that no reader needs. Safe to run anywhere, any time; one server does it, the others pass. */
    async compact(): Promise<void> {
      /** How many entries were dropped; undefined when another server is at it. */
      const dropBatch = (): Promise<number | undefined> =>
        transactions.run(async (tx) => {
          const [answer] = await tx.run(tryCompact, []);
          if (answer?.locked !== true) return undefined;
          const [dropped] = await tx.run(dropChanges, [retention.logMs, batch]);
          await tx.run(dropRevocations, []);
          return dropped?.count ?? 0;
        });
      let dropped = await dropBatch();
      while (dropped === batch) dropped = await dropBatch();
      if (dropped !== undefined) await forgetDeletions(context, retention.deletionsMs);
    },
  };
}
