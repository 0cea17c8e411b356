/** Owns the counting of address ranges in SQL: of a group, and over all groups of a device, including those by label (reference 8 (10)). */
import { inOrg, statement } from '../postgres/sql.ts';
import { groupsByLabel, hasByLabel } from './selectors.ts';

export const rangesOf = (row: string): string => `(${row}.inbound_ranges + ${row}.outbound_ranges)`;

/** What a device has by its list without this group. */
const listRanges = (device: string, group: string): string =>
  `coalesce((SELECT sum(${rangesOf('o')}) FROM device_groups k JOIN security_groups o ON o.id = k.group_id
     WHERE k.device_id = ${device}.id AND k.group_id <> ${group}), 0)`;

/** What a device has by label without this group, and what its list does not name anyway. */
const labelRanges = (device: string, group: string): string =>
  `coalesce((SELECT sum(${rangesOf('o')}) FROM security_groups o WHERE o.id IN ${groupsByLabel(device)}
     AND o.id <> ${group} AND o.id <> ALL (${device}.security_groups)), 0)`;

/** What all groups by label of the organization have together: no device has more by label. */
const mostByLabel = `coalesce((SELECT sum(${rangesOf('o')}) FROM security_groups o
  WHERE o.id IN (SELECT s.group_id FROM group_selectors s WHERE s.org_id = $1)), 0)`;

/** The upper bound for a device with any labels: the ranges by its list and by label. */
export const mostRangesOf = (device: string): string => `${listRanges(device, noGroup())} + (SELECT ${mostByLabel})`;

/** What all groups of the organization have together: where that fits, no device needs to be looked at. */
const allRanges = `(SELECT coalesce(sum(${rangesOf('o')}), 0) FROM security_groups o WHERE o.org_id = $1)`;

/** Whether a device would have more than `most` with `own` ranges of this group. What is quick to see is looked at first. */
const isOverfull = (device: string, { group, own, most }: RangeCheck): string =>
  `CASE WHEN ${listRanges(device, group)} + ${own} > ${most} THEN true
     WHEN ${listRanges(device, group)} + ${own} + (SELECT ${mostByLabel}) <= ${most} THEN false
     ELSE ${listRanges(device, group)} + ${own} + ${labelRanges(device, group)} > ${most} END`;

interface RangeCheck {
  readonly group: string;
  /** How many ranges that group has, or is to have. */
  readonly own: string;
  readonly most: string;
}

const hasGroup = (device: string, group: string): string =>
  `(${device}.id IN (SELECT l.device_id FROM device_groups l WHERE l.group_id = ${group}) OR ${hasByLabel(device, group)})`;

/** Whether any device that has this group would be overfull. */
export const makesOverfull = (counted: RangeCheck): string =>
  `((SELECT true FROM device_groups l JOIN devices d ON d.id = l.device_id WHERE l.group_id = ${counted.group}
     AND ${isOverfull('d', counted)} LIMIT 1) IS TRUE
    OR EXISTS (SELECT FROM group_selectors s WHERE s.group_id = ${counted.group})
      AND (SELECT true FROM devices d WHERE d.org_id = $1 AND ${hasByLabel('d', counted.group)} AND ${isOverfull('d', counted)} LIMIT 1) IS TRUE)`;

/**
 * The devices that would have too many. Values: organization, group, inbound ranges or null, outbound ranges or null (both as they stand), most of a
 * device.
 */
export const findOverfull = statement<{ id: string; hostname: string }>(
  'find_overfull_devices',
  `SELECT d.id, d.hostname FROM security_groups g
   JOIN LATERAL (SELECT coalesce($3::integer, g.inbound_ranges) + coalesce($4::integer, g.outbound_ranges) AS ranges) n ON true
   JOIN devices d ON d.org_id = $1 AND ${hasGroup('d', 'g.id')}
   WHERE g.id = $2 AND ${inOrg('g')} AND ${allRanges} + n.ranges > $5 AND ${isOverfull('d', { group: 'g.id', own: 'n.ranges', most: '$5' })} ORDER BY d.id LIMIT 1000`,
);

/** How many a device `d` of organization `$1` has over all its groups. */
export const deviceRanges = (device: string): string =>
  `(${listRanges(device, noGroup())} + ${labelRanges(device, noGroup())})`;

/** How many a device has over all its groups. Values: organization, device. */
export const countDeviceRanges = statement<{ ranges: number }>(
  'count_device_ranges',
  `SELECT ${deviceRanges('d')} AS ranges FROM devices d WHERE d.id = $2 AND ${inOrg('d')}`,
);

/** No group has this id. */
function noGroup(): string {
  return `'00000000-0000-0000-0000-000000000000'::uuid`;
}
