/** Owns which devices hold a stream, as all servers tell it: one row a process that lives, one a device and process that it held streams of. */
import { parseDeviceId, type DeviceId } from '../../../policy/ids.ts';
import type { Presence, Seen } from '../contract/presence.ts';
import { statement } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';

/** A device counts as online for so long after its last sign of life; a process tells of itself several times within it. */
const onlineSeconds = 20;
/** A process that was silent for so long is gone. */
const goneSeconds = 60;
/** In the place of processes that are gone. */
const nobody = '00000000-0000-0000-0000-000000000000';
const firstDevice = nobody;

/** Values: process, devices, whether each is connected. */
const recordPresence = statement<{ unknown: boolean }>(
  'record_presence',
  `WITH alive AS (
     INSERT INTO stream_processes (id, seen_at) VALUES ($1, clock_timestamp())
     ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at RETURNING xmax = 0 AS unknown),
   told AS (
     INSERT INTO device_presence (device_id, process_id, org_id, connected, last_seen_at)
     SELECT d.id, $1, d.org_id, a.connected, clock_timestamp()
     FROM unnest($2::uuid[], $3::boolean[]) AS a (device_id, connected) JOIN devices d ON d.id = a.device_id ORDER BY d.id FOR KEY SHARE OF d
     ON CONFLICT (device_id, process_id) DO UPDATE SET connected = excluded.connected, last_seen_at = excluded.last_seen_at)
   SELECT unknown FROM alive`,
);

/** A device that is connected was seen when its process was; `p` is its row, `s` that of its process. */
const lastSeen = 'CASE WHEN p.connected THEN greatest(p.last_seen_at, s.seen_at) ELSE p.last_seen_at END';

/** Devices in one read. */
const devicesAtOnce = 500;

/** Values: organization, after this device. */
const readPresence = statement<{ device_id: string; last_seen_at: string; online: boolean }>(
  'read_presence',
  `SELECT device_id, last_seen_at, last_seen_at > clock_timestamp() - interval '${onlineSeconds} seconds' AS online
   FROM (SELECT p.device_id, max(${lastSeen}) AS last_seen_at FROM device_presence p LEFT JOIN stream_processes s ON s.id = p.process_id
         WHERE p.org_id = $1 AND p.device_id > $2 GROUP BY p.device_id ORDER BY p.device_id LIMIT ${devicesAtOnce}) AS seen ORDER BY device_id`,
);

/** What is known of the devices of processes that are gone becomes one row a device. */
const foldPresence = statement<never>(
  'fold_presence',
  `WITH gone AS (
     DELETE FROM stream_processes WHERE seen_at < clock_timestamp() - interval '${goneSeconds} seconds' RETURNING id, seen_at),
   left_behind AS (
     DELETE FROM device_presence p USING gone s WHERE p.process_id = s.id RETURNING p.device_id, ${lastSeen} AS last_seen_at),
   folded AS MATERIALIZED (SELECT device_id, max(last_seen_at) AS last_seen_at FROM left_behind GROUP BY device_id)
   INSERT INTO device_presence (device_id, process_id, org_id, connected, last_seen_at)
   SELECT d.id, '${nobody}', d.org_id, false, f.last_seen_at FROM folded f JOIN devices d ON d.id = f.device_id ORDER BY d.id FOR KEY SHARE OF d
   ON CONFLICT (device_id, process_id) DO UPDATE SET last_seen_at = greatest(device_presence.last_seen_at, excluded.last_seen_at)`,
);

export const presenceIn = ({ reads, writes }: Pick<Context, 'reads' | 'writes'>): Presence => ({
  async record(process_id, changes) {
    const devices = changes.map(({ device_id }) => device_id);
    const connected = changes.map((change) => String(change.connected));
    const [row] = await writes.run(recordPresence, [process_id, devices, connected]);
    return row?.unknown === true;
  },

  async read(org) {
    const seen = new Map<DeviceId, Seen>();
    for (let after = firstDevice; ;) {
      const rows = await reads.run(readPresence, [org, after]);
      for (const { device_id, ...one } of rows) seen.set(parseDeviceId(device_id), one);
      const last = rows.at(-1);
      if (last === undefined || rows.length < devicesAtOnce) return seen;
      after = last.device_id;
    }
  },

  async forget() {
    await writes.run(foldPresence, []);
  },
});
