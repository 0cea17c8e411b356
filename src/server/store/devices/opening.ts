/** Owns which devices a write would leave with only the default group: no device becomes open by accident (reference 1.3 (5)). */
import { parseDeviceId, type DeviceId } from '../../../policy/ids.ts';
import { refuse } from '../../problems.ts';
import { statement } from '../postgres/sql.ts';
import type { Locked } from '../write/transaction.ts';
import {
  enforcesAny,
  enforcesAnyAfterTrials,
  enforcesAnyInScope,
  isInScope,
  isReplacedAfterTrials,
  isReplacedByLabel,
  isReplacedInScope,
} from './selectors.ts';

/** An answer names at most this many devices, and says how many more there are (reference 8 (7)). */
const mostNamed = 100;

export interface OpenedRow {
  readonly id: string;
  readonly hostname: string;
  /** How many devices there are in all. */
  readonly total: number;
}

/** A query for the devices `d` of organization `$1` that match this condition, as `refuseOpened` takes them. */
export const selectOpened = (where: string): string =>
  `SELECT d.id, d.hostname, count(*) OVER () AS total FROM devices d WHERE d.org_id = $1 AND ${where} ORDER BY d.id LIMIT ${mostNamed}`;

/** Throws `would_open` where there are any. */
export function refuseOpened(rows: readonly OpenedRow[]): void {
  const [first] = rows;
  if (first === undefined) return;
  const devices: { readonly id: DeviceId; readonly hostname: string }[] = rows.map(({ id, hostname }) => ({
    id: parseDeviceId(id),
    hostname,
  }));
  refuse({ code: 'would_open', devices, more: first.total - devices.length });
}

/** The list of device `d` before the change of it that is being tried. */
const listBefore = `ARRAY(SELECT json_array_elements_text(d.trial::json -> 'before' -> 'security_groups')::uuid)`;

/**
 * Whether the list of device `d` has no group that enforces when all trials have ended and nobody has confirmed them. `list` is the list that it has
 * otherwise. A group that is only tried keeps no device closed: what follows when the trial ends is judged, too.
 */
const isEmptyAfterTrials = (list: string): string =>
  `(CASE WHEN d.trial IS NULL THEN NOT ${enforcesAnyAfterTrials(list)} ELSE NOT ${enforcesAnyAfterTrials(listBefore)} END)`;

/**
 * Whether device `d` has the default group when every change that is being tried is kept, and when all trials have ended without being kept. A device
 * outside the scope of a trial has neither the one nor the other, but what `isOpenInScope` says.
 */
const isOpen = `NOT ${enforcesAny('d.security_groups')} AND NOT ${isReplacedByLabel('d.labels')}`;
const isOpenAfterTrials = `${isEmptyAfterTrials('d.security_groups')} AND NOT ${isReplacedAfterTrials('d.labels')}`;

/** Only then the scope of a trial decides which devices are open: without, what is tried is in force everywhere. */
const hasScopedTrial = `EXISTS (SELECT FROM trials t WHERE t.org_id = $1 AND t.state = 'pending' AND t.scope IS NOT NULL)`;

/** The list that counts for device `d` with these labels, which may put it in or out of the scope of the trial of its list. */
const listInScope = (list: string, labels: string): string =>
  `CASE WHEN d.trial IS NULL OR ${isInScope('d.trial', labels)} THEN ${list} ELSE ${listBefore} END`;
const enforcesByList = (list: string, labels: string): string => enforcesAnyInScope(listInScope(list, labels), labels);

/** Whether a group of its list, or one by label, keeps device `d` from the default group at this moment. */
const isClosedByList = enforcesByList('d.security_groups', 'd.labels');
const isClosedByLabel = isReplacedInScope('d.labels');
/** Whether device `d` has the default group at this moment: trials count where their scope names it. */
const isOpenInScope = `NOT ${isClosedByList} AND NOT ${isClosedByLabel}`;

/** In each of the three ways in which it may come to be. */
const isOpenSomehow = `((${isOpen}) OR (${isOpenAfterTrials}) OR (${hasScopedTrial} AND ${isOpenInScope}))`;

/**
 * Whether a change of the labels of device `d` takes its last group, now or at the end of a trial: it had one by label, and then has none by label
 * or list. A write that only empties the device's own list asks for that, and is not meant here. Labels that put the device in or out of the scope of a
 * trial may take the groups of its list, too.
 */
export const opensByLabels = (change: {
  readonly oldLabels: string;
  readonly newLabels: string;
  readonly newList: string;
  readonly givesList: string;
}): string =>
  `((NOT ${enforcesAny(change.newList)} AND ${isReplacedByLabel(change.oldLabels)} AND NOT ${isReplacedByLabel(change.newLabels)})
    OR (${isEmptyAfterTrials(change.newList)} AND ${isReplacedAfterTrials(change.oldLabels)} AND NOT ${isReplacedAfterTrials(change.newLabels)})
    OR (${hasScopedTrial} AND NOT ${enforcesByList(change.newList, change.newLabels)} AND NOT ${isReplacedInScope(change.newLabels)}
      AND (${isReplacedInScope(change.oldLabels)} OR (NOT ${change.givesList} AND ${enforcesByList('d.security_groups', change.oldLabels)}))))`;

/** The devices that a trial concerns and that a group keeps from the default group. A list that is tried empty asks for it. Values: organization, devices, groups. */
const findClosedByTrial = statement<{ id: string }>(
  'find_closed_by_trial',
  `SELECT d.id FROM devices d WHERE d.org_id = $1
     AND (d.id = ANY ($2::uuid[]) OR d.id IN (SELECT l.device_id FROM device_groups l WHERE l.group_id = ANY ($3::uuid[]))
       OR EXISTS (SELECT FROM security_groups g CROSS JOIN LATERAL json_array_elements(g.trial::json -> 'before' -> 'applies_to') AS b (selector)
         WHERE g.id = ANY ($3::uuid[]) AND g.trial IS NOT NULL AND d.labels @> ARRAY(SELECT json_array_elements_text(b.selector -> 'labels'))))
     AND ((${isClosedByList} AND NOT (d.id = ANY ($2::uuid[]) AND d.security_groups = '{}')) OR ${isClosedByLabel})`,
);

/** Those of these devices that have the default group at this moment. Values: organization, devices. */
const findOpenNow = statement<OpenedRow>('find_open_now', selectOpened(`d.id = ANY ($2::uuid[]) AND ${isOpenInScope}`));

interface TriedIds {
  readonly devices: readonly string[];
  readonly groups: readonly string[];
}

/** Runs the write by which a trial is kept or widened, so that more devices try it. Throws where that leaves one of them with the default group. */
export async function refuseOpenedByTrial<T>(
  { tx, org }: Pick<Locked, 'tx' | 'org'>,
  { devices, groups }: TriedIds,
  write: () => Promise<T>,
): Promise<T> {
  const closed = await tx.run(findClosedByTrial, [org, devices, groups]);
  const written = await write();
  if (closed.length > 0) refuseOpened(await tx.run(findOpenNow, [org, closed.map(({ id }) => id)]));
  return written;
}

/** The devices that these selectors named, or that list the group, and that have no group any more. Values: organization, selectors as JSON, group. */
const findLeftByGroup = statement<OpenedRow>(
  'find_devices_left_by_group',
  `WITH selectors AS MATERIALIZED (
     SELECT ARRAY(SELECT json_array_elements_text(s.selector -> 'labels')) AS labels FROM json_array_elements($2::json) AS s (selector))
   ${selectOpened(`(EXISTS (SELECT FROM selectors s WHERE d.labels @> s.labels)
     OR d.id IN (SELECT l.device_id FROM device_groups l WHERE l.group_id = $3)) AND ${isOpenSomehow}`)}`,
);

/** Judged after the write, under the organization's lock: the caller takes the write back where this throws. */
export async function refuseLeftByGroup(
  { tx, org }: Pick<Locked, 'tx' | 'org'>,
  group: string,
  selectors: string,
): Promise<void> {
  refuseOpened(await tx.run(findLeftByGroup, [org, selectors, group]));
}

/** A device that a group keeps from the default group, in each of three cases. */
export interface ClosedDevice {
  readonly id: string;
  /** Where all that is being tried is kept. */
  readonly kept: boolean;
  /** Where all trials end without that. */
  readonly ended: boolean;
  /** At this moment, where the scope of a trial decides. */
  readonly scoped: boolean;
}

const byList = '($3::boolean AND d.id <> ALL ($4::uuid[]))';

/**
 * Before a write: the devices that are closed. Groups by list count only where the write may stop them, and in the scope of trials. Values: organization,
 * devices or null for all, whether groups by list count, devices for which they do not.
 */
export const closedBefore = statement<ClosedDevice>(
  'closed_before',
  `SELECT * FROM (SELECT d.id, (${byList} AND ${enforcesAny('d.security_groups')}) OR ${isReplacedByLabel('d.labels')} AS kept,
       (${byList} AND NOT ${isEmptyAfterTrials('d.security_groups')}) OR ${isReplacedAfterTrials('d.labels')} AS ended,
       ${hasScopedTrial} AND ((d.id <> ALL ($4::uuid[]) AND ${isClosedByList}) OR ${isClosedByLabel}) AS scoped
     FROM devices d WHERE d.org_id = $1 AND ($2::uuid[] IS NULL OR d.id = ANY ($2))) c WHERE c.kept OR c.ended OR c.scoped`,
);

/** Those of them that have the default group after the write, in the same cases. Values: organization, closed devices of each case. */
const openedSince = statement<OpenedRow>(
  'opened_since',
  selectOpened(
    `((d.id = ANY ($2::uuid[]) AND ${isOpen}) OR (d.id = ANY ($3::uuid[]) AND ${isOpenAfterTrials}) OR (d.id = ANY ($4::uuid[]) AND ${isOpenInScope}))`,
  ),
);

/** Judged after the write: no device of those that were closed has the default group in a case in which it had a group. */
export async function refuseOpenedSince(
  { tx, org }: Pick<Locked, 'tx' | 'org'>,
  closed: readonly ClosedDevice[],
): Promise<void> {
  if (closed.length === 0) return;
  const ids = (name: 'kept' | 'ended' | 'scoped'): readonly string[] =>
    closed.flatMap((one) => (one[name] ? [one.id] : []));
  refuseOpened(await tx.run(openedSince, [org, ids('kept'), ids('ended'), ids('scoped')]));
}
