/** Owns the usage of rules in the store, read by day and rule. Reports add to it (`reports`). */
import type { Timestamp } from '../../../organization/decide/records.ts';
import { parseDeviceId, parseGroupId, type OrganizationId, type DeviceId, type GroupId } from '../../../policy/ids.ts';
import { isoTime, statement } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';
import type { CoverageRow } from './statements.ts';
import type { FlowCoverage, DecidingRule } from '../data/flows.ts';

export interface RuleCount extends DecidingRule {
  readonly packets: number;
  readonly last_hit: Timestamp;
}

/** Since when the device has reported, without a break, what the rules of the group decided. */
export interface ReportedSince {
  readonly group: GroupId;
  readonly device: DeviceId;
  readonly since: Timestamp;
}

/** Values: organization, since, devices. */
const readUsageCoverage = statement<CoverageRow>(
  'read_usage_coverage',
  `SELECT device_id, to_char(day, 'YYYY-MM-DD') AS day, ${isoTime('through')} AS through, refused_seconds, all_seconds, not_recorded + rules_unknown AS not_recorded
   FROM flow_coverage WHERE org_id = $1 AND day >= ($2::timestamptz AT TIME ZONE 'UTC')::date AND device_id = ANY ($3::uuid[]) ORDER BY day, device_id`,
);
/** Values: organization, devices, group (null: all). */
const readReportedSince = statement<{ group_id: string; device_id: string; since: string }>(
  'read_rules_reported_since',
  `SELECT r.key AS group_id, l.device_id, r.value AS since FROM refusal_levels l CROSS JOIN LATERAL jsonb_each_text(l.rules_since) AS r
   WHERE l.org_id = $1 AND l.device_id = ANY ($2::uuid[]) AND ($3::uuid IS NULL OR r.key = $3::uuid::text)`,
);
/** Values: organization, since, group (null: all). */
const readCounts = statement<{ group_id: string; rule: string; packets: string; last_hit: string }>(
  'read_rule_usage',
  `SELECT group_id, encode(rule, 'hex') AS rule, sum(packets)::text AS packets, ${isoTime('max(last_hit)')} AS last_hit FROM rule_usage
   WHERE org_id = $1 AND ($3::uuid IS NULL OR group_id = $3::uuid) AND day >= ($2::timestamptz AT TIME ZONE 'UTC')::date GROUP BY group_id, rule`,
);
export interface RuleUsageOptions {
  readonly keepMs: number;
}

export function ruleUsageIn({ reads }: Context, { keepMs }: RuleUsageOptions) {
  return {
    /** How long counts, and what is known of when devices were observed, are kept, in milliseconds. */
    keptMs: keepMs,

    /** How long devices were observed, on the days from this time on, whether or not their sums are still kept. */
    async coverage(
      org: OrganizationId,
      since: Timestamp,
      devices: readonly DeviceId[],
    ): Promise<readonly FlowCoverage[]> {
      const rows = await reads.run(readUsageCoverage, [org, since, devices]);
      return rows.map(({ device_id, ...row }) => ({ device_id: parseDeviceId(device_id), ...row }));
    },

    /** Of the group, or of all. A pair that is not here was not reported. */
    async reportedSince(
      org: OrganizationId,
      devices: readonly DeviceId[],
      group?: GroupId,
    ): Promise<readonly ReportedSince[]> {
      const rows = await reads.run(readReportedSince, [org, devices, group ?? null]);
      return rows.map(({ group_id, device_id, since }) => ({
        group: parseGroupId(group_id),
        device: parseDeviceId(device_id),
        since,
      }));
    },

    /** Sums of the days from this time on (UTC, the whole day), of the group or of all. */
    async counts(org: OrganizationId, since: Timestamp, group?: GroupId): Promise<readonly RuleCount[]> {
      const rows = await reads.run(readCounts, [org, since, group ?? null]);
      return rows.map(({ group_id, rule, packets, last_hit }) => ({
        group: parseGroupId(group_id),
        rule,
        packets: Number(packets),
        last_hit,
      }));
    },
  };
}
