/** Owns the statuses of devices in the database: they are written in batches, and reads return only new ones. */
import { parseDeviceId, type DeviceId, type OrganizationId } from '../../../policy/ids.ts';
import { isObject } from '../../../policy/json.ts';
import { Coalescer } from '../../scheduling/coalescer.ts';
import type { Right, Authority } from '../data/actor.ts';
import { StoreError, type StoreProblem } from '../../problems.ts';
import { statement, type Value } from '../postgres/sql.ts';
import { checkTime, reportRefusals, rightItem } from '../write/right.ts';
import { now } from '../write/stamp.ts';
import type { Context } from '../write/context.ts';
import type { DeviceStatus } from '../data/records.ts';

export interface NewReceipts {
  /** Each device once, in no order. Some may come again. */
  readonly statuses: readonly DeviceStatus[];
  /** To be given to the next call, so that it neither misses a status nor reads all of them again. */
  readonly through: string;
  /** Another text where a part of the history may have been discarded: then what earlier answers gave proves nothing. */
  readonly history: string;
  /** There are more, from here on. */
  readonly next?: string;
}

interface Report {
  readonly org: OrganizationId;
  readonly id: DeviceId;
  readonly status: string;
  readonly right: Right;
}

/** Reports with the rights that they come by, as rows `n`. Values: organizations, devices in their order, statuses, now, roles, tokens, sessions, users. */
const reports = `(SELECT *, $4::timestamptz AS at FROM unnest($1::uuid[], $2::uuid[], $3::text[], $5::integer[], $6::bytea[], $7::uuid[], $8::uuid[])
  AS r (org_id, id, status, may, token, session, actor)) AS n`;
const newestEra = '(SELECT max(serial) FROM eras)';
const isRefused = `(CASE ${reportRefusals} END) IS NOT NULL`;

/** A device that has reported before still exists: its status is deleted with it. */
const updateStatuses = statement<{ device_id: string }>(
  'update_statuses',
  `UPDATE device_status s SET status = n.status, reported_at = n.at, transaction_id = pg_current_xact_id(), era = ${newestEra}
   FROM ${reports} WHERE s.org_id = n.org_id AND s.device_id = n.id AND NOT ${isRefused} RETURNING s.device_id`,
);

/** Values: the same, of those that have not reported before. A device that is not there has no row. */
const insertStatuses = statement<{ device_id: string }>(
  'insert_statuses',
  `INSERT INTO device_status (org_id, device_id, status, reported_at, transaction_id, era)
   SELECT d.org_id, d.id, n.status, n.at, pg_current_xact_id(), ${newestEra}
   FROM ${reports} JOIN devices d ON d.id = n.id AND (d.org_id = n.org_id) IS TRUE WHERE NOT ${isRefused} ORDER BY d.id FOR KEY SHARE OF d
   ON CONFLICT (org_id, device_id) DO UPDATE
     SET status = excluded.status, reported_at = excluded.reported_at, transaction_id = excluded.transaction_id, era = excluded.era
   RETURNING device_id`,
);

/** Why reports were not written. Values: the same. */
const findRefusals = statement<{ id: string; refusal: 'credential_ended' | 'forbidden' | null }>(
  'find_report_refusals',
  `SELECT n.id, CASE ${reportRefusals} END AS refusal FROM ${reports}`,
);

/** Statuses in one read, each of up to some ten thousand characters. */
const statusesAtOnce = 250;

interface StatusRow {
  readonly through: string;
  readonly history: string;
  /** Pairs of revisions: what lies between was discarded, both ends included. */
  readonly discarded: readonly (readonly [number, number])[] | null;
  readonly transaction_id: string;
  /** Null in the one row that there is when nothing is new. */
  readonly device_id: string | null;
  readonly status: string;
  readonly reported_at: string;
  /** Whether it was reported after the last cut of the history. */
  readonly is_of_history: boolean;
}

/** A cut of the history begins an era: what was reported before it proves nothing. */
const newestCut = '(SELECT max(serial) FROM eras WHERE is_cut)';

/**
 * Values: organization, transaction and device after which to read. `through` is the oldest transaction that was still
 * in progress: every status that this answer cannot show was written by that transaction or a later one.
 */
const readStatuses = statement<StatusRow>(
  'read_statuses',
  `SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS through,
     concat_ws(' ', (SELECT gaps FROM heads WHERE org_id = $1), (SELECT id FROM eras ORDER BY serial DESC LIMIT 1), ${newestCut}) AS history,
     (SELECT json_agg(json_build_array(first, last)) FROM revision_gaps WHERE org_id = $1 AND kind IS NULL) AS discarded, s.transaction_id::text AS transaction_id, s.device_id, s.status, s.reported_at,
     coalesce(s.era, 0) >= coalesce(${newestCut}, 0) AS is_of_history
   FROM (SELECT 1) AS always LEFT JOIN
     (SELECT transaction_id, device_id, status, reported_at, era FROM device_status
      WHERE org_id = $1 AND (transaction_id, device_id) > ($2::text::xid8, $3::uuid)
      ORDER BY transaction_id, device_id LIMIT ${statusesAtOnce}) AS s ON true ORDER BY s.transaction_id, s.device_id`,
);

/** A status from before a cut of the history, or about what is discarded, proves nothing: it is kept without its revision. */
function provenIn(
  status: unknown,
  { is_of_history, discarded }: Pick<StatusRow, 'is_of_history' | 'discarded'>,
): unknown {
  if (!isObject(status)) return status;
  const { revision, ...rest } = status;
  const isDiscarded =
    typeof revision === 'number' && discarded?.some(([first, last]) => first <= revision && revision <= last) === true;
  return isDiscarded || !is_of_history ? rest : status;
}

const firstDevice = '00000000-0000-0000-0000-000000000000';

function valuesOf(asked: readonly Report[], at: string): Value[] {
  const rights = asked.map(({ right }) => rightItem(right));
  return [
    asked.map(({ org }) => org),
    asked.map(({ id }) => id),
    asked.map(({ status }) => status),
    at,
    rights.map(({ may }) => String(may)),
    rights.map(({ token }) => token),
    rights.map(({ session }) => session),
    asked.map(({ right }) => right.user_id ?? null),
  ];
}

/** Identifies the credential of a report, among the reports of one device. */
const credentialName = ({ user_id, credential }: Right): string =>
  `${user_id ?? ''} ${credential.kind} ${credential.kind === 'token' ? credential.digest : 'id' in credential ? credential.id : ''}`;

/** In their order, each device once in a turn: a statement writes a row once. */
function inTurns(asked: readonly Report[]): readonly (readonly Report[])[] {
  const turns: Report[][] = [];
  const counts = new Map<DeviceId, number>();
  for (const report of asked) {
    const turn = counts.get(report.id) ?? 0;
    counts.set(report.id, turn + 1);
    (turns[turn] ??= []).push(report);
  }
  return turns;
}

export function receiptsIn(context: Context) {
  const { reads, writes } = context;
  const write = async (statementOf: typeof updateStatuses, asked: readonly Report[]): Promise<Set<string>> => {
    const rows = await writes.run(statementOf, valuesOf(asked, now(context)));
    return new Set(rows.map(({ device_id }) => device_id));
  };
  /** Reports of one device each; gives those that were not written, and why. */
  const writeOnce = async (asked: readonly Report[]): Promise<ReadonlyMap<Report, StoreProblem>> => {
    // In one order, as every process writes them: two that met in the middle would wait for each other.
    const ordered = asked.toSorted((a, b) => (a.id < b.id ? -1 : 1));
    const written = await write(updateStatuses, ordered);
    const others = ordered.filter(({ id }) => !written.has(id));
    if (others.length > 0) for (const id of await write(insertStatuses, others)) written.add(id);
    const missing = others.filter(({ id }) => !written.has(id));
    if (missing.length === 0) return new Map();
    const refusals = new Map(
      (await reads.run(findRefusals, valuesOf(missing, now(context)))).map(({ id, refusal }) => [id, refusal]),
    );
    const problemOf = ({ id }: Report): StoreProblem => {
      const code = refusals.get(id) ?? 'not_found';
      return code === 'not_found' ? { code, what: 'device' } : { code };
    };
    return new Map(missing.map((report) => [report, problemOf(report)]));
  };
  const writing = new Coalescer<Report, StoreProblem | undefined>({
    // Two callers may speak for one device, each by a right of its own.
    nameOf: ({ id, right }) => `${id} ${credentialName(right)}`,
    read: async (all) => {
      const problems = new Map<Report, StoreProblem>();
      for (const turn of inTurns(all))
        for (const [report, problem] of await writeOnce(turn)) problems.set(report, problem);
      return all.map((report) => problems.get(report));
    },
  });
  return {
    /**
     * Keeps what a device says about itself; no revision, no event. Reports that come together are one write. The right is checked in the statement
     * that writes.
     */
    async report(org: OrganizationId, id: DeviceId, status: unknown, { right }: Authority): Promise<void> {
      // Here, because the report is written together with those of others.
      checkTime(right, now(context));
      const problem = await writing.batched.get({ org, id, status: JSON.stringify(status ?? null), right });
      if (problem !== undefined) throw new StoreError(problem);
    },

    /**
     * What devices said since an earlier answer; without one, what each said last. In parts: of all that follow one another by `next`, the `through` of the first
     * counts. A device that reports meanwhile is met again, here or with the next `through`.
     */
    async since(org: OrganizationId, through: string = '0', next?: string): Promise<NewReceipts> {
      const [transaction = through, device = firstDevice] = next?.split(' ') ?? [];
      let rows = await reads.run(readStatuses, [org, transaction, device]);
      // A database that was put in the place of another counts its transactions anew.
      const wentBack = next === undefined && BigInt(rows[0]?.through ?? through) < BigInt(through);
      if (wentBack) rows = await reads.run(readStatuses, [org, '0', firstDevice]);
      const last = rows.length < statusesAtOnce ? undefined : rows.at(-1);
      return {
        through: rows[0]?.through ?? '0',
        history: rows[0]?.history ?? '',
        ...(last && { next: `${last.transaction_id} ${last.device_id}` }),
        statuses: rows.flatMap(({ device_id, status, reported_at, ...proof }) =>
          device_id === null
            ? []
            : [
                {
                  device_id: parseDeviceId(device_id),
                  reported_at,
                  status: provenIn(JSON.parse(status) as unknown, proof),
                },
              ],
        ),
      };
    },
  };
}

export type Receipts = ReturnType<typeof receiptsIn>;
