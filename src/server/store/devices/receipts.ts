/** Owns the statuses of devices as the database keeps them: written together, read by what is new, told of while somebody waits. */
import { parseDeviceId, type DeviceId, type OrganizationId } from '../../../policy/ids.ts';
import { Coalescer } from '../../coalesce.ts';
import { StoreError } from '../contract/errors.ts';
import type { Receipts } from '../contract/receipts.ts';
import { statement } from '../postgres/sql.ts';
import { now } from '../write/stamp.ts';
import type { Context } from '../write/context.ts';

interface Report {
  readonly org: OrganizationId;
  readonly id: DeviceId;
  readonly status: string;
}

/** For so long after it was asked for, receipts of an organization are told of. */
const awaitedMs = 15_000;

/** Values: organizations, devices in their order, statuses, now. Whoever has reported before is there: its status goes with it. */
const updateStatuses = statement<{ device_id: string }>(
  'update_statuses',
  `UPDATE device_status s SET status = a.status, reported_at = $4, transaction_id = pg_current_xact_id()
   FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS a (org_id, device_id, status)
   WHERE s.org_id = a.org_id AND s.device_id = a.device_id RETURNING s.device_id`,
);

/** Values: the same, of those that have not reported before. A device that is not there has no row. */
const insertStatuses = statement<{ device_id: string }>(
  'insert_statuses',
  `INSERT INTO device_status (org_id, device_id, status, reported_at, transaction_id)
   SELECT d.org_id, d.id, a.status, $4, pg_current_xact_id()
   FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS a (org_id, device_id, status)
     JOIN devices d ON d.id = a.device_id AND (d.org_id = a.org_id) IS TRUE ORDER BY d.id FOR KEY SHARE OF d
   ON CONFLICT (org_id, device_id) DO UPDATE SET status = excluded.status, reported_at = excluded.reported_at, transaction_id = excluded.transaction_id
   RETURNING device_id`,
);

/** Statuses in one read, each of up to some ten thousand characters. */
const statusesAtOnce = 250;

interface StatusRow {
  readonly through: string;
  readonly transaction_id: string;
  /** Null in the one row that there is when nothing is new. */
  readonly device_id: string | null;
  readonly status: string;
  readonly reported_at: string;
}

/**
 * Values: organization, transaction and device after which to read. `through` is the oldest transaction that was still under way: whatever
 * this answer cannot show was written by that one or a later one.
 */
const readStatuses = statement<StatusRow>(
  'read_statuses',
  `SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS through, s.transaction_id::text AS transaction_id, s.device_id, s.status, s.reported_at
   FROM (SELECT 1) AS always LEFT JOIN
     (SELECT transaction_id, device_id, status, reported_at FROM device_status
      WHERE org_id = $1 AND (transaction_id, device_id) > ($2::text::xid8, $3::uuid)
      ORDER BY transaction_id, device_id LIMIT ${statusesAtOnce}) AS s ON true ORDER BY s.transaction_id, s.device_id`,
);

const firstDevice = '00000000-0000-0000-0000-000000000000';

export function receiptsIn(context: Context): Receipts {
  const { reads, writes, hints, clock } = context;
  /** Until when each organization's receipts are awaited, by this process or another. */
  const awaited = new Map<OrganizationId, number>();
  hints.on(({ awaited_organizations }) => {
    for (const org of awaited_organizations) awaited.set(org, clock() + awaitedMs);
  });
  const isAwaited = (org: OrganizationId): boolean => {
    const until = awaited.get(org);
    if (until !== undefined && until < clock()) awaited.delete(org);
    return awaited.has(org);
  };
  const write = async (statementOf: typeof updateStatuses, reports: readonly Report[]): Promise<Set<string>> => {
    const rows = await writes.run(statementOf, [
      reports.map(({ org }) => org),
      reports.map(({ id }) => id),
      reports.map(({ status }) => status),
      now(context),
    ]);
    return new Set(rows.map(({ device_id }) => device_id));
  };
  const writing = new Coalescer<Report, boolean>({
    nameOf: ({ id }) => id,
    read: async (reports) => {
      // In one order, as every process writes them: two that met in the middle would wait for each other.
      const ordered = reports.toSorted((a, b) => (a.id < b.id ? -1 : 1));
      const written = await write(updateStatuses, ordered);
      const others = ordered.filter(({ id }) => !written.has(id));
      if (others.length > 0) for (const id of await write(insertStatuses, others)) written.add(id);
      const told = new Set(reports.filter(({ org }) => isAwaited(org)).map(({ org }) => org));
      if (told.size > 0) hints.tell({ receipts: [...told] });
      return reports.map(({ id }) => written.has(id));
    },
  });
  return {
    async report(org, id, status) {
      const written = await writing.patient.get({ org, id, status: JSON.stringify(status ?? null) });
      if (!written) throw new StoreError({ code: 'not_found', what: 'device' });
    },

    async since(org, through = '0', next) {
      const [transaction = through, device = firstDevice] = next?.split(' ') ?? [];
      let rows = await reads.run(readStatuses, [org, transaction, device]);
      // A database that was put in the place of another counts its transactions anew.
      const wentBack = next === undefined && BigInt(rows[0]?.through ?? through) < BigInt(through);
      if (wentBack) rows = await reads.run(readStatuses, [org, '0', firstDevice]);
      const last = rows.length < statusesAtOnce ? undefined : rows.at(-1);
      return {
        through: rows[0]?.through ?? '0',
        ...(last && { next: `${last.transaction_id} ${last.device_id}` }),
        statuses: rows.flatMap(({ device_id, status, reported_at }) =>
          device_id === null
            ? []
            : [{ device_id: parseDeviceId(device_id), reported_at, status: JSON.parse(status) as unknown }],
        ),
      };
    },

    ask(org, { revision, devices }) {
      hints.tell({
        awaited_organizations: [org],
        ...(devices === undefined
          ? { prompted_organizations: [{ organization_id: org, revision }] }
          : { prompted_devices: devices.map((device_id) => ({ device_id, revision })) }),
      });
    },
  };
}
