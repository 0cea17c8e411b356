/** Owns the reading of the history: the states of a record, an organization at a revision, and the retention. */
import { theServer } from '../../../organization/decide/caller.ts';
import type { GroupOwner } from '../../../organization/decide/group.ts';
import type { WatchKind } from '../../../api/kinds.ts';
import {
  parseDeviceId,
  parseUserId,
  type OrganizationId,
  type GroupId,
  type DeviceId,
  type UserId,
} from '../../../policy/ids.ts';
import { refuse } from '../../problems.ts';
import type { GroupReader } from '../data/groups.ts';
import type { IdentityState, State, StatePage, WrittenState, AddedAddress } from '../data/history.ts';
import type { Rows, RevisionPage } from '../data/page.ts';
import type { DevicePolicyRecord, DeviceRecord, GroupRecord, Stored } from '../data/records.ts';
import type { Runner } from '../postgres/connection.ts';
import { pageValues, rowsWithin, statement, withinBytes, withRevision, type PageRow } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';
import { stored } from '../write/stored.ts';

interface StateRow {
  readonly revision: number;
  readonly type: State<unknown>['type'];
  readonly at: string;
  readonly user_id: string | null;
  readonly username: string | null;
  readonly body: string;
}

/** Whether this reader could see a state while it was current. NULL sees no state that is restricted to one user. */
export const couldSee = (state: string, reader: string): string =>
  `(${state}.only_for IS NULL OR ${state}.only_for = ${reader}::uuid)`;

/**
 * Values: organization, kind, id, reader, below this revision, limit, bytes. The limit is a query, so that PostgreSQL plans the same for every limit, also before
 * it has statistics.
 */
const listStates = statement<StateRow & PageRow>(
  'list_states',
  withinBytes(
    `SELECT s.revision, s.type, s.at, s.user_id, u.username, s.body FROM history s LEFT JOIN users u ON u.id = s.user_id
     WHERE s.org_id = $1 AND s.kind = $2 AND s.id = $3 AND ${couldSee('s', '$4')} AND s.revision < coalesce($5::bigint, 9223372036854775807)
     ORDER BY s.revision DESC LIMIT (SELECT $6::bigint)`,
    { bytes: '$7', length: 'octet_length(p.body)', order: 'p.revision DESC' },
  ),
);

/** As the index `history_device_names` has it. */
const hostnameOf = "((s.body || '}')::json ->> 'hostname')";
/** Values: organization, device, below this revision, limit, bytes. */
const listNamesakes = statement<StateRow & PageRow>(
  'list_namesakes',
  withinBytes(
    `SELECT s.revision, s.type, s.at, s.user_id, u.username, s.body FROM (
       SELECT DISTINCT ON (s.id) s.* FROM (SELECT id, org_id, (body || '}')::json ->> 'hostname' AS hostname FROM devices WHERE org_id = $1 AND id = $2) d JOIN history s
         ON s.org_id = d.org_id AND s.kind = 'device' AND md5(${hostnameOf}) = md5(d.hostname) AND ${hostnameOf} = d.hostname AND s.id <> d.id
       WHERE d.hostname <> ''
       ORDER BY s.id, s.revision DESC) AS s LEFT JOIN users u ON u.id = s.user_id
     WHERE s.revision < coalesce($3::bigint, 9223372036854775807)
     ORDER BY s.revision DESC LIMIT $4`,
    { bytes: '$5', length: 'octet_length(p.body)', order: 'p.revision DESC' },
  ),
);

/** Values: organization, device. Of each address the newest state that has it where the state before has not. */
const listAddresses = statement<{ address: string } & Pick<StateRow, 'at' | 'user_id' | 'username'>>(
  'list_past_addresses',
  `SELECT DISTINCT ON (a.address) a.address, s.at, s.user_id, u.username FROM (
     SELECT r.*, lag(r.addresses) OVER (ORDER BY r.revision) AS before FROM (
       SELECT s.revision, s.at, s.user_id, ARRAY(
         SELECT split_part(b.record ->> 'tunnel_ip', '/', 1)
         UNION ALL SELECT json_array_elements_text(b.record -> 'addresses') WHERE json_typeof(b.record -> 'addresses') = 'array') AS addresses
       FROM history s CROSS JOIN LATERAL (SELECT (s.body || '}')::json AS record) AS b
       WHERE s.org_id = $1 AND s.kind = 'device' AND s.id = $2 AND s.type = 'change' ORDER BY s.revision DESC LIMIT 10000) AS r) AS s
   CROSS JOIN LATERAL unnest(s.addresses) AS a(address) LEFT JOIN users u ON u.id = s.user_id
   WHERE a.address <> '' AND (s.before IS NULL OR a.address <> ALL (s.before)) ORDER BY a.address, s.revision DESC`,
);

interface IdentityRow {
  readonly id: string;
  readonly at: string;
  readonly type: State<unknown>['type'];
  readonly body: string;
  readonly by_owner: boolean;
}
/** Values: organization, devices. */
const listIdentities = statement<IdentityRow>(
  'list_identities',
  `SELECT d.id, s.at, s.type, s.body, EXISTS (
     SELECT FROM members m WHERE m.org_id = $1 AND m.user_id = s.user_id AND m.role = 'owner') AS by_owner
   FROM unnest($2::uuid[]) AS d (id) CROSS JOIN LATERAL (
     SELECT s.revision, s.at, s.type, s.user_id, s.body FROM history s WHERE s.org_id = $1 AND s.kind = 'device' AND s.id = d.id
     ORDER BY s.revision DESC LIMIT 100) AS s
   ORDER BY d.id, s.revision DESC`,
);

interface AtRow extends PageRow {
  readonly head: number;
  readonly history_start: number;
  /** Null in the single row that is returned when no group matches. */
  readonly id: string | null;
  readonly revision: number | null;
  readonly body: string | null;
}

/**
 * The newest state of each record of a kind up to a revision, in the order of ids, as rows `s`. It steps from id to id, and reads one state of each: the cost
 * does not grow with the states that a record has. `LIMIT` after it ends the steps. Values: organization, revision, after this id.
 */
const statesAt = (kind: WatchKind): string =>
  `(WITH RECURSIVE ids AS (
      (SELECT s.id FROM history s WHERE s.org_id = $1 AND s.kind = '${kind}' AND s.id > $3::uuid ORDER BY s.id LIMIT 1)
      UNION ALL
      SELECT (SELECT s.id FROM history s WHERE s.org_id = $1 AND s.kind = '${kind}' AND s.id > ids.id ORDER BY s.id LIMIT 1) FROM ids WHERE ids.id IS NOT NULL)
    SELECT s.* FROM ids CROSS JOIN LATERAL (
      SELECT s.* FROM history s WHERE s.org_id = $1 AND s.kind = '${kind}' AND s.id = ids.id AND s.revision <= $2 ORDER BY s.revision DESC LIMIT 1) AS s
    WHERE s.type = 'change') AS s`;

/** With the head and the start of the history, which show whether the answer can be complete. */
const withHead = (states: string, bytes = 'NULL'): string =>
  `SELECT h.revision AS head, h.history_start, s.id, s.revision, s.body, s.page_rows FROM heads h LEFT JOIN LATERAL (
     ${withinBytes(`SELECT s.id, s.revision, s.body FROM ${states}`, { bytes, length: 'octet_length(p.body)', order: 'p.id' })}) AS s ON true
   WHERE h.org_id = $1 ORDER BY s.id`;

/** Values: organization, revision, after this id, limit, greater than this revision, bytes, reader, owner (null: all, '': the organization). */
const groupsAt = statement<AtRow>(
  'groups_at',
  withHead(
    `${statesAt('security-groups')} WHERE s.revision > $5 AND ${couldSee('s', '$7')} AND ($8::text IS NULL OR coalesce(s.owner_id::text, '') = $8) LIMIT $4`,
    '$6',
  ),
);

/** Values: organization, revision, after this id, limit, greater than this revision, bytes. */
const devicesAt = statement<AtRow>(
  'devices_at',
  withHead(`${statesAt('device')} WHERE s.revision > $5 LIMIT $4`, '$6'),
);

/** Values: organization, revision, group, reader. */
const groupAt = statement<AtRow>(
  'group_at',
  withHead(
    `(SELECT s.* FROM history s WHERE s.org_id = $1 AND s.kind = 'security-groups' AND s.id = $3 AND s.revision <= $2 ORDER BY s.revision DESC LIMIT 1) AS s
     WHERE s.type = 'change' AND ${couldSee('s', '$4')}`,
  ),
);

/** As the index `history_revision` has it. In an index by `revision` itself, PostgreSQL would look for the states of one record too, through those of all others. */
const anyRevision = '(s.revision + 0)';
/** Values: organization, after this revision, up to this one, limit. */
const listBetween = statement<StateRow & { readonly kind: WrittenState['kind']; readonly id: string }>(
  'list_states_between',
  `SELECT s.kind, s.id, s.revision, s.type, s.at, s.user_id, u.username, s.body FROM history s LEFT JOIN users u ON u.id = s.user_id
   WHERE s.org_id = $1 AND ${anyRevision} > $2 AND ${anyRevision} <= $3 ORDER BY ${anyRevision} LIMIT $4`,
);

/**
 * Values: organization, time. Clocks of servers may differ: of what was written in the last minute before the time, the greatest
 * revision counts.
 */
const revisionAt = statement<{ history_start: number; revision: number | null }>(
  'revision_at',
  `SELECT h.history_start, (
     SELECT max(s.revision) FROM history s WHERE s.org_id = $1 AND s.at <= $2 AND s.at > (
       SELECT n.at FROM history n WHERE n.org_id = $1 AND n.at <= $2 ORDER BY n.at DESC LIMIT 1) - interval '1 minute') AS revision
   FROM heads h WHERE h.org_id = $1`,
);

/** Values: organization, id. */
const lastState = statement<StateRow & { readonly owner_id: string | null; readonly only_for: string | null }>(
  'last_state',
  `SELECT s.revision, s.type, s.at, s.user_id, NULL AS username, s.body, s.owner_id, s.only_for FROM history s
   WHERE s.org_id = $1 AND s.kind = 'security-groups' AND s.id = $2 ORDER BY s.revision DESC LIMIT 1`,
);

/** Organizations in which something passed the border since the last time. Values: the border. */
const findOld = statement<{ org_id: string; revision: number }>(
  'find_old_states',
  `SELECT s.org_id, max(s.revision) AS revision FROM history s JOIN heads h ON h.org_id = s.org_id
   WHERE s.at < $1 GROUP BY s.org_id, h.history_start HAVING max(s.revision) > h.history_start`,
);
/** Readers learn that states may be missing before the first state is deleted. Values: organization, revision. */
const markStart = statement<never>(
  'mark_history_start',
  'UPDATE heads SET history_start = greatest(history_start, $2) WHERE org_id = $1',
);
/**
 * States that another one followed up to the mark, and deletions up to there, by time, so that each batch begins where the one before it ended. Values:
 * organization, mark, border, from this time on, how many at once.
 */
const dropStates = statement<{ at: string }>(
  'drop_states',
  `DELETE FROM history WHERE ctid = ANY (ARRAY(
     SELECT s.ctid FROM history s WHERE s.org_id = $1 AND s.revision <= $2 AND s.at < $3 AND s.at >= $4 AND (s.type = 'delete' OR EXISTS (
       SELECT FROM history f WHERE f.org_id = $1 AND f.kind = s.kind AND f.id = s.id AND f.revision > s.revision AND f.revision <= $2))
     ORDER BY s.at LIMIT $5)) RETURNING at`,
);
const batch = 1_000;

/** A device's record without what changes with where it is reached. Fields of a later version stay. */
function policyOf(record: DeviceRecord): DevicePolicyRecord {
  const {
    public_key: _key,
    local_ip: _ip,
    child_prefix: _prefix,
    relay: _relay,
    discovery: _discovery,
    ...rest
  } = record;
  const { reflexive_ip4: _public, endpoint_local_address_ip4: _local, symmetric_nat: _nat, ...described } = rest;
  const { created_at: _created, updated_at: _updated, ...policy } = described;
  return policy;
}

/** A state's record as readers get it. */
function recordOf(kind: WatchKind, body: string, revision: number): GroupRecord | DevicePolicyRecord {
  const record: unknown = JSON.parse(withRevision(body, revision));
  return kind === 'device' ? policyOf(record as DeviceRecord) : (record as GroupRecord);
}

const authorOf = ({ user_id, username }: Pick<StateRow, 'user_id' | 'username'>) =>
  user_id === theServer
    ? { by_server: true as const }
    : { ...(user_id !== null && { user_id: parseUserId(user_id) }), ...(username !== null && { username }) };

/** A group may have megabytes: its text is sent as it is stored, and parsed only where somebody asks for the record. */
function stateOf<T>(kind: WatchKind, { revision, type, at, body, ...author }: StateRow): State<T> {
  const about = { revision, at, type, ...authorOf(author) };
  const read = (): T => recordOf(kind, body, revision) as T;
  return {
    ...about,
    get record() {
      return read();
    },
    get json() {
      const text = kind === 'device' ? JSON.stringify(read()) : withRevision(body, revision);
      return `${JSON.stringify(about).slice(0, -1)},"record":${text}}`;
    },
  };
}

export function historyIn(context: Context, keepMs: number) {
  const { reads, writes } = context;

  async function states<T>(
    kind: WatchKind,
    [org, id]: readonly [string, string],
    { reader, below, limit, bytes }: StatePage & { readonly reader?: GroupReader },
  ): Promise<Rows<State<T>>> {
    const page = [below ?? null, limit ?? null, bytes ?? null];
    return rowsWithin(await reads.run(listStates, [org, kind, id, reader ?? null, ...page]), (row) =>
      stateOf<T>(kind, row),
    );
  }

  async function standing<T>(
    runner: Runner,
    list: typeof groupsAt,
    [org, revision, ...more]: readonly [org: string, revision: number, ...(string | number | null)[]],
  ): Promise<Rows<Stored<T>>> {
    const rows = await runner.run(list, [org, revision, ...more]);
    const [first] = rows;
    if (first === undefined) return refuse({ code: 'not_found', what: 'organization' });
    if (revision > first.head) return refuse({ code: 'revision_ahead', head: first.head });
    if (revision < first.history_start) return refuse({ code: 'revision_gone', oldest: first.history_start });
    const found = rows.flatMap(({ id, revision: own, body, page_rows }) =>
      id === null || own === null || body === null ? [] : [{ id, revision: own, body, page_rows }],
    );
    return rowsWithin(found, stored<T>);
  }

  return {
    /** Newest first; none where the reader could never see the group. */
    ofGroup: (
      org: OrganizationId,
      id: GroupId,
      query: StatePage & { readonly reader: GroupReader },
    ): Promise<Rows<State<GroupRecord>>> => states<GroupRecord>('security-groups', [org, id], query),
    ofDevice: (org: OrganizationId, id: DeviceId, query: StatePage = {}): Promise<Rows<State<DevicePolicyRecord>>> =>
      states<DevicePolicyRecord>('device', [org, id], query),
    /** Every address that the device has or had in its newest 10,000 states, as it was written, each once: who added it last, and when. */
    async addressesOf(org: OrganizationId, id: DeviceId): Promise<readonly AddedAddress[]> {
      const rows = await reads.run(listAddresses, [org, id]);
      return rows.map(({ address, at, user_id, username }) => ({
        address,
        at,
        ...(user_id !== null && { user_id: parseUserId(user_id) }),
        ...(username !== null && { username }),
      }));
    },
    /** The newest 100 states of each of these devices: of one device after the other, newest first. */
    async identitiesOf(org: OrganizationId, ids: readonly DeviceId[]): Promise<readonly IdentityState[]> {
      return (await reads.run(listIdentities, [org, ids])).map(({ id, at, type, body, by_owner }): IdentityState => {
        const record = JSON.parse(withRevision(body, 0)) as DeviceRecord;
        const { labels = [], tunnel_ip, addresses = [], created_at } = record;
        const identity =
          type === 'delete' ? { labels: [], tunnel_ip: '', addresses: [] } : { labels, tunnel_ip, addresses };
        return { device_id: parseDeviceId(id), at, ...identity, by_owner, is_first: created_at === at };
      });
    },
    /** Other devices that have, or had, the host name of this one: of each its newest state under that name, newest first. */
    async namesakes(
      org: OrganizationId,
      id: DeviceId,
      { below, limit, bytes }: StatePage = {},
    ): Promise<Rows<State<DevicePolicyRecord>>> {
      const rows = await reads.run(listNamesakes, [org, id, below ?? null, limit ?? null, bytes ?? null]);
      return rowsWithin(rows, (row) => stateOf<DevicePolicyRecord>('device', row));
    },

    /** The groups at a revision, in the order of ids. Fails with `revision_ahead` or `revision_gone`. */
    groupsAt(
      org: OrganizationId,
      revision: number,
      {
        reader,
        owner,
        gt_revision,
        bytes,
        ...page
      }: RevisionPage & { readonly reader: GroupReader; readonly owner?: GroupOwner | undefined },
    ): Promise<Rows<Stored<GroupRecord>>> {
      const owned = owner === undefined ? null : owner === 'organization' ? '' : owner;
      const values = [...pageValues(page), gt_revision ?? 0, bytes ?? null, reader ?? null, owned];
      return standing<GroupRecord>(reads, groupsAt, [org, revision, ...values]);
    },

    /**
     * The devices at a revision, in the order of ids: what decides their policy. Other fields are as they were at the last
     * change of these. Fails with `revision_ahead` or `revision_gone`.
     */
    devicesAt: (
      org: OrganizationId,
      revision: number,
      { gt_revision, bytes, ...page }: RevisionPage,
    ): Promise<Rows<Stored<DeviceRecord>>> =>
      standing<DeviceRecord>(reads, devicesAt, [org, revision, ...pageValues(page), gt_revision ?? 0, bytes ?? null]),

    /** All states that were written after a revision, up to another one, in their order: at most this many. */
    async between(
      org: OrganizationId,
      { after, through, limit }: { readonly after: number; readonly through: number; readonly limit: number },
    ): Promise<readonly WrittenState[]> {
      const rows = await reads.run(listBetween, [org, after, through, limit]);
      return rows.map(({ kind, id, revision, type, at, body, ...author }) => ({
        kind,
        id,
        revision,
        at,
        ...authorOf(author),
        ...(type === 'change' && { json: withRevision(body, revision) }),
      }));
    },

    /** The newest revision that was written up to a time. Fails with `revision_gone` where the history starts later. */
    async revisionAt(org: OrganizationId, at: Date): Promise<number> {
      const [row] = await reads.run(revisionAt, [org, at.toISOString()]);
      if (row === undefined) return refuse({ code: 'not_found', what: 'organization' });
      const { history_start, revision } = row;
      return revision ?? refuse({ code: 'revision_gone', oldest: history_start });
    },

    /** One of them; undefined when it did not exist then or the reader could not see it. */
    async groupAt(
      org: OrganizationId,
      revision: number,
      id: GroupId,
      reader: GroupReader,
    ): Promise<Stored<GroupRecord> | undefined> {
      // A restore writes it, so the primary answers.
      const [group] = await standing<GroupRecord>(reads, groupAt, [org, revision, id, reader ?? null]);
      return group;
    },

    /** A group that was deleted, as last known, with its owner and the revision of its deletion. */
    async deletedGroup(
      org: OrganizationId,
      id: GroupId,
      reader: GroupReader,
    ): Promise<{ readonly user_id: UserId | undefined; readonly stored: Stored<GroupRecord> } | undefined> {
      const [row] = await reads.run(lastState, [org, id]);
      if (row?.type !== 'delete' || (row.only_for !== null && row.only_for !== reader)) return undefined;
      const user_id = row.owner_id === null ? undefined : parseUserId(row.owner_id);
      return { user_id, stored: stored<GroupRecord>({ id, revision: row.revision, body: row.body }) };
    },

    /** Deletes states that ended before the retention period. A state that was current at its start is kept, however old it is. */
    async forget(): Promise<void> {
      const border = new Date(context.clock() - keepMs).toISOString();
      for (const { org_id, revision } of await writes.run(findOld, [border])) {
        await writes.run(markStart, [org_id, revision]);
        for (let from = '-infinity', more = true; more;) {
          const dropped = await writes.run(dropStates, [org_id, revision, border, from, batch]);
          from = dropped.reduce((latest, { at }) => (at > latest ? at : latest), dropped[0]?.at ?? from);
          more = dropped.length === batch;
        }
      }
    },
  };
}

export type History = ReturnType<typeof historyIn>;
