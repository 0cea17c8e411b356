/** Owns fleet samples in the database: one small row for each organization and time step in which a device reported. */
import type { Timestamp } from '../../../organization/decide/records.ts';
import { sampleHours, sampleSeconds } from '../../../api/enforcement/overview.ts';
import { parseOrganizationId, type OrganizationId } from '../../../policy/ids.ts';
import { statement } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';

export interface CountedPackets {
  readonly org: OrganizationId;
  readonly admitted: number;
  readonly refused: number;
}

export interface Sample {
  readonly at: Timestamp;
  readonly devices?: number;
  readonly in_force?: number;
  readonly admitted: number;
  readonly refused: number;
}

export interface SampleQuery {
  /** Milliseconds since the epoch. */
  readonly since: number;
  /** Seconds of one sample of the answer, a multiple of those that are kept: packets are summed, and of states the worst is shown. */
  readonly seconds: number;
}

/** What a sample holds at most: what all readers keep exactly, and what can be added to itself. A fleet that lies spoils its own picture only. */
const most = Number.MAX_SAFE_INTEGER;
const sum = (field: string): string => `least(fleet_samples.${field}, ${most}) + excluded.${field}`;

/** Values: organizations, admitted, refused, time. No value of one row can fail the others. */
const addPackets = statement<never>(
  'add_packets',
  `INSERT INTO fleet_samples (org_id, at, admitted, refused)
   SELECT o.id, $4, least(a.admitted, ${most}), least(a.refused, ${most}) FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS a (org_id, admitted, refused)
     JOIN organizations o ON o.id = a.org_id ORDER BY o.id FOR KEY SHARE OF o
   ON CONFLICT (org_id, at) DO UPDATE SET admitted = least(${sum('admitted')}, ${most}), refused = least(${sum('refused')}, ${most})`,
);

/** Values: organizations, time. */
const claimSamples = statement<{ org_id: string }>(
  'claim_samples',
  `INSERT INTO fleet_samples (org_id, at, is_claimed)
   SELECT o.id, $2, true FROM unnest($1::uuid[]) AS a (org_id) JOIN organizations o ON o.id = a.org_id ORDER BY o.id FOR KEY SHARE OF o
   ON CONFLICT (org_id, at) DO UPDATE SET is_claimed = true WHERE NOT fleet_samples.is_claimed RETURNING org_id`,
);

/** Values: organization, time, devices, in force. */
const recordState = statement<never>(
  'record_fleet_state',
  'UPDATE fleet_samples SET devices = $3, in_force = $4 WHERE org_id = $1 AND at = $2',
);

interface SampleRow {
  readonly at: string;
  readonly devices: number | null;
  readonly in_force: number | null;
  readonly admitted: number;
  readonly refused: number;
}

/** Values: organization, since, seconds. */
const readSamples = statement<SampleRow>(
  'read_samples',
  `SELECT date_bin(make_interval(secs => $3::integer), at, 'epoch'::timestamptz) AS at,
     (array_agg(devices ORDER BY devices - in_force DESC) FILTER (WHERE devices IS NOT NULL))[1] AS devices,
     (array_agg(in_force ORDER BY devices - in_force DESC) FILTER (WHERE devices IS NOT NULL))[1] AS in_force,
     least(sum(admitted), ${most})::bigint AS admitted, least(sum(refused), ${most})::bigint AS refused
   FROM fleet_samples WHERE org_id = $1 AND at >= $2 GROUP BY 1 ORDER BY 1`,
);

const step = sampleSeconds * 1_000;
export const sampleRetentionMs = sampleHours * 3_600_000;

/** Samples are a picture, not an account: what a process that dies had not written yet is lost. Organizations that are gone are passed over. */
export function fleetSamplesIn({ reads, writes, clock }: Pick<Context, 'reads' | 'writes' | 'clock'>) {
  const text = (ms: number): string => new Date(ms).toISOString();
  const now = (): string => text(Math.floor(clock() / step) * step);
  return {
    /** Adds to the current sample. One write for any number of organizations. */
    async add(counted: readonly CountedPackets[]): Promise<void> {
      if (counted.length === 0) return;
      await writes.run(addPackets, [
        counted.map(({ org }) => org),
        counted.map(({ admitted }) => String(Math.min(admitted, most))),
        counted.map(({ refused }) => String(Math.min(refused, most))),
        now(),
      ]);
    },

    /** Returns those of these organizations whose state is not yet in the current sample. Only one caller gets each of them. */
    async claim(orgs: readonly OrganizationId[]): Promise<readonly OrganizationId[]> {
      if (orgs.length === 0) return [];
      const rows = await writes.run(claimSamples, [orgs, now()]);
      return rows.map(({ org_id }) => parseOrganizationId(org_id));
    },

    /** Writes the state that was claimed. */
    async record(
      org: OrganizationId,
      { devices, in_force }: { readonly devices: number; readonly in_force: number },
    ): Promise<void> {
      await writes.run(recordState, [org, now(), devices, in_force]);
    },

    /** Oldest first. */
    async read(org: OrganizationId, { since, seconds }: SampleQuery): Promise<readonly Sample[]> {
      const rows = await reads.run(readSamples, [org, text(since), seconds]);
      return rows.map(({ at, devices, in_force, admitted, refused }) => ({
        at,
        ...(devices !== null && { devices }),
        ...(in_force !== null && { in_force }),
        admitted,
        refused,
      }));
    },
  };
}

export type FleetSamples = ReturnType<typeof fleetSamplesIn>;
