/** Owns what ends by time, in the store: trials and isolations, found by the rows that hold when. */
import {
  parseDeviceId,
  parseOrganizationId,
  parseTrialId,
  parseUserId,
  type DeviceId,
  type OrganizationId,
  type TrialId,
} from '../../../policy/ids.ts';
import { asServer, type Actor } from '../data/actor.ts';
import type { AuditNote } from '../data/audit.ts';
import type { Trials } from './trials.ts';
import type { Devices } from '../devices/devices.ts';
import { theServer } from '../../../organization/decide/caller.ts';
import { statement } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';

interface TimedEnd {
  readonly org: OrganizationId;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

export type Ending =
  | (TimedEnd & { readonly kind: 'trial'; readonly id: TrialId })
  | (TimedEnd & {
      readonly kind: 'isolation';
      readonly id: DeviceId;
      /** As it was found. */
      readonly revision: number;
      /** In whose name it is lifted: the owner who isolated it, or another one. */
      readonly owner: string;
    });

/** Values: until when. */
const findEnds = statement<{
  org_id: string;
  id: string;
  at: string;
  isolation: { readonly revision: number; readonly owner: string } | null;
}>(
  'find_ends',
  `SELECT org_id, id, ends_at AS at, NULL AS isolation FROM trials WHERE state = 'pending' AND ends_at <= $1::timestamptz
   UNION ALL
   SELECT d.org_id, d.id, (d.isolated::json ->> 'until')::timestamptz, json_build_object('revision', d.revision, 'owner', o.user_id)
   FROM devices d CROSS JOIN LATERAL (
     SELECT m.user_id FROM members m WHERE m.org_id = d.org_id AND m.role = 'owner'
     ORDER BY m.user_id = (d.isolated::json ->> 'by')::uuid DESC, m.user_id LIMIT 1) AS o
   WHERE d.isolated <> '' AND (d.isolated::json ->> 'until')::timestamptz <= $1::timestamptz
   ORDER BY at`,
);

/** The audit note of an isolation whose time is over: the server acts, for an owner. */
const liftNote = (user: Actor['user_id']): AuditNote => ({
  operation: 'liftIsolation',
  user_id: user,
  credential: { kind: 'server' },
  address: '',
  request_id: '',
});

export function endsIn(
  { reads, clock }: Pick<Context, 'reads' | 'clock'>,
  { trials, devices }: { readonly trials: Pick<Trials, 'expire'>; readonly devices: Pick<Devices, 'update'> },
) {
  return {
    /** What has ended or ends within so many milliseconds, the earliest first. */
    async next(withinMs: number): Promise<readonly Ending[]> {
      const rows = await reads.run(findEnds, [new Date(clock() + withinMs).toISOString()]);
      return rows.map(({ org_id, id, at, isolation }) => {
        const end = { org: parseOrganizationId(org_id), at: Date.parse(at) };
        if (isolation === null) return { ...end, kind: 'trial', id: parseTrialId(id) };
        return { ...end, kind: 'isolation', id: parseDeviceId(id), ...isolation };
      });
    },

    /**
     * Reverts the trial, or removes the isolation from the record, each as a change of its own. Several servers may do it at once: of a trial
     * that another one has ended nothing happens, an isolation of a device that was changed meanwhile is `precondition_failed` or `not_found`.
     */
    async end(ending: Ending): Promise<void> {
      if (ending.kind === 'trial') {
        await trials.expire(ending);
        return;
      }
      const { org, id, revision, owner } = ending;
      // The server lifts it, also where nobody is left who isolated the device.
      const by: Actor = { ...asServer, user_id: theServer, audit: liftNote(parseUserId(owner)) };
      await devices.update(org, by, id, { isolated: null }, { if_match: revision });
    },
  };
}

export type Ends = ReturnType<typeof endsIn>;
