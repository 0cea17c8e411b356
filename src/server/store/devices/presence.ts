/** Owns presence in the database: one row for each live process, and one for each device and each process that has held a stream of it. */
import type { Timestamp } from '../../../organization/decide/records.ts';
import { parseDeviceId, type DeviceId, type OrganizationId } from '../../../policy/ids.ts';
import { statement } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';

/** What a process knows of a device. */
export interface PresenceChange {
  readonly device_id: DeviceId;
  /** It holds a stream of this process. */
  readonly connected: boolean;
  /** The stream carries signs of life: the process ends it when they stop, so that the device was heard for as long as it is connected. */
  readonly twoWay: boolean;
  /** How long the device may show no sign before it counts as gone. */
  readonly silenceMs: number;
  /** How long ago it was last heard. */
  readonly heardAgoMs: number;
  /** How long ago its last stream of this process ended, unless because nothing was heard of it. */
  readonly leftAgoMs?: number;
}

export interface DevicePresence {
  /** It holds a stream right now, or did within the last 20 seconds, and its last sign of life is recent. */
  readonly online: boolean;
  /** Its last sign of life. Of a device with a stream that carries signs: since then at least. */
  readonly last_seen_at: Timestamp;
  /** It holds a stream without recent signs: it is online all the same if it has reported its status after this. */
  readonly online_if_reported_after?: Timestamp;
}

/** A device counts as online for so long after its stream ended; a process records that it lives several times within it. */
const onlineSeconds = 20;
/** A process that was silent for so long is gone. */
const goneSeconds = 60;
/** In the place of a time of which nothing is known: before every other. */
const longAgoMs = 1e12;
/** In the place of processes that are gone. */
const nobody = '00000000-0000-0000-0000-000000000000';
const firstDevice = nobody;

/** The process, how many milliseconds ago all were heard, and of each device what its change says. */
const recordPresence = statement<{ unknown: boolean }>(
  'record_presence',
  `WITH alive AS (
     INSERT INTO stream_processes (id, seen_at, heard_at) VALUES ($1, clock_timestamp(), clock_timestamp() - $2::double precision * interval '1 millisecond')
     ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, heard_at = greatest(stream_processes.heard_at, excluded.heard_at)
     RETURNING xmax = 0 AS unknown),
   told AS (
     INSERT INTO device_presence (device_id, process_id, org_id, connected, two_way, silence, last_seen_at, left_at)
     SELECT d.id, $1, d.org_id, a.connected, a.two_way, a.silence_ms * interval '1 millisecond',
       clock_timestamp() - a.heard_ago_ms * interval '1 millisecond', clock_timestamp() - nullif(a.left_ago_ms, -1) * interval '1 millisecond'
     FROM unnest($3::uuid[], $4::boolean[], $5::boolean[], $6::double precision[], $7::double precision[], $8::double precision[])
       AS a (device_id, connected, two_way, silence_ms, heard_ago_ms, left_ago_ms)
       JOIN devices d ON d.id = a.device_id ORDER BY d.id FOR KEY SHARE OF d
     ON CONFLICT (device_id, process_id) DO UPDATE SET connected = excluded.connected, two_way = excluded.two_way, silence = excluded.silence,
       last_seen_at = greatest(device_presence.last_seen_at, excluded.last_seen_at), left_at = coalesce(excluded.left_at, device_presence.left_at))
   SELECT unknown FROM alive`,
);

/**
 * When a device was last heard; `p` is its row, `s` that of its process. Where its stream carries signs, its process vouches for it: it was heard no earlier than the process
 * says of all. A process of the version before says nothing of that, and counts as it did.
 */
const lastSeen =
  'CASE WHEN p.connected AND p.two_way THEN greatest(p.last_seen_at, coalesce(s.heard_at, s.seen_at)) ELSE p.last_seen_at END';

const isAlive = `s.seen_at > clock_timestamp() - interval '${onlineSeconds} seconds'`;
const hasStream = `(p.connected AND ${isAlive} OR p.left_at > clock_timestamp() - interval '${onlineSeconds} seconds')`;

/** Devices in one read. */
const devicesAtOnce = 500;

interface PresenceRow {
  readonly device_id: string;
  readonly last_seen_at: string;
  readonly online: boolean;
  readonly online_if_reported_after: string | null;
}

/** Values: organization, after this device. */
const readPresence = statement<PresenceRow>(
  'read_presence',
  `SELECT device_id, last_seen_at, vouched OR coalesce(last_seen_at > clock_timestamp() - silence, false) AS online,
     CASE WHEN NOT vouched THEN clock_timestamp() - silence END AS online_if_reported_after
   FROM (SELECT p.device_id, max(${lastSeen}) AS last_seen_at, coalesce(bool_or(p.connected AND p.two_way AND ${isAlive}), false) AS vouched,
           max(p.silence) FILTER (WHERE ${hasStream}) AS silence
         FROM device_presence p LEFT JOIN stream_processes s ON s.id = p.process_id
         WHERE p.org_id = $1 AND p.device_id > $2 GROUP BY p.device_id ORDER BY p.device_id LIMIT ${devicesAtOnce}) AS seen ORDER BY device_id`,
);

/** What is known of the devices of processes that are gone becomes one row a device. */
const foldPresence = statement<never>(
  'fold_presence',
  `WITH gone AS (
     DELETE FROM stream_processes WHERE seen_at < clock_timestamp() - interval '${goneSeconds} seconds' RETURNING id, seen_at, heard_at),
   left_behind AS (
     DELETE FROM device_presence p USING gone s WHERE p.process_id = s.id RETURNING p.device_id, ${lastSeen} AS last_seen_at),
   folded AS MATERIALIZED (SELECT device_id, max(last_seen_at) AS last_seen_at FROM left_behind GROUP BY device_id)
   INSERT INTO device_presence (device_id, process_id, org_id, connected, two_way, last_seen_at)
   SELECT d.id, '${nobody}', d.org_id, false, false, f.last_seen_at FROM folded f JOIN devices d ON d.id = f.device_id ORDER BY d.id FOR KEY SHARE OF d
   ON CONFLICT (device_id, process_id) DO UPDATE SET last_seen_at = greatest(device_presence.last_seen_at, excluded.last_seen_at)`,
);

export const presenceIn = ({ reads, writes }: Pick<Context, 'reads' | 'writes'>) => ({
  /**
   * One write, however many devices are connected: this process lives, has heard every device whose stream carries signs within `heardAgoMs` (undefined:
   * no more is known than before), and knows this of some. True when the process was not known, at its first record or because it was silent
   * for so long that it was given up: then it records all its devices.
   */
  async record(
    process_id: string,
    heardAgoMs: number | undefined,
    changes: readonly PresenceChange[],
  ): Promise<boolean> {
    const column = (read: (change: PresenceChange) => unknown): string[] =>
      changes.map((change) => String(read(change)));
    const [row] = await writes.run(recordPresence, [
      process_id,
      String(heardAgoMs ?? longAgoMs),
      column((change) => change.device_id),
      column((change) => change.connected),
      column((change) => change.twoWay),
      column((change) => change.silenceMs),
      column((change) => change.heardAgoMs),
      column((change) => change.leftAgoMs ?? -1),
    ]);
    return row?.unknown === true;
  },

  /** Every device of the organization that ever held a stream, by the database's clock. */
  async read(org: OrganizationId): Promise<ReadonlyMap<DeviceId, DevicePresence>> {
    const presence = new Map<DeviceId, DevicePresence>();
    for (let after = firstDevice; ;) {
      const rows = await reads.run(readPresence, [org, after]);
      for (const { device_id, online_if_reported_after: since, ...one } of rows) {
        presence.set(parseDeviceId(device_id), { ...one, ...(since !== null && { online_if_reported_after: since }) });
      }
      const last = rows.at(-1);
      if (last === undefined || rows.length < devicesAtOnce) return presence;
      after = last.device_id;
    }
  },

  /** Takes in what processes left behind that are gone. Safe to run anywhere, any time. */
  async forget(): Promise<void> {
    await writes.run(foldPresence, []);
  },
});

export type Presence = ReturnType<typeof presenceIn>;
