/** Owns which devices a write would leave with only the default group: no device becomes open by accident (reference 1.3 (5)). */
import { parseDeviceId, type DeviceId } from '../../../policy/ids.ts';
import { refuse } from '../contract/errors.ts';
import { statement } from '../postgres/sql.ts';
import type { Locked } from '../write/transaction.ts';
import { enforcesAny, enforcesAnyAfterTrials, isReplacedAfterTrials, isReplacedByLabel } from './selectors.ts';

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
export const isEmptyAfterTrials = (list: string): string =>
  `(CASE WHEN d.trial IS NULL THEN NOT ${enforcesAnyAfterTrials(list)} ELSE NOT ${enforcesAnyAfterTrials(listBefore)} END)`;

/** Whether device `d` has the default group now, and when all trials have ended. */
export const isOpen = `NOT ${enforcesAny('d.security_groups')} AND NOT ${isReplacedByLabel('d.labels')}`;
export const isOpenAfterTrials = `${isEmptyAfterTrials('d.security_groups')} AND NOT ${isReplacedAfterTrials('d.labels')}`;

/**
 * Whether a change of the labels of device `d` takes its last group, now or at the end of a trial: it had one by label, and then has none by label
 * or list. A write that only empties the device's own list asks for that, and is not meant here.
 */
export const opensByLabels = (change: {
  readonly oldLabels: string;
  readonly newLabels: string;
  readonly newList: string;
}): string =>
  `((NOT ${enforcesAny(change.newList)} AND ${isReplacedByLabel(change.oldLabels)} AND NOT ${isReplacedByLabel(change.newLabels)})
    OR (${isEmptyAfterTrials(change.newList)} AND ${isReplacedAfterTrials(change.oldLabels)} AND NOT ${isReplacedAfterTrials(change.newLabels)}))`;

/** The devices that these selectors named, or that list the group, and that have no group any more. Values: organization, selectors as JSON, group. */
const findLeftByGroup = statement<OpenedRow>(
  'find_devices_left_by_group',
  `WITH selectors AS MATERIALIZED (
     SELECT ARRAY(SELECT json_array_elements_text(s.selector -> 'labels')) AS labels FROM json_array_elements($2::json) AS s (selector))
   ${selectOpened(`(EXISTS (SELECT FROM selectors s WHERE d.labels @> s.labels)
     OR d.id IN (SELECT l.device_id FROM device_groups l WHERE l.group_id = $3)) AND ((${isOpen}) OR (${isOpenAfterTrials}))`)}`,
);

/** Judged after the write, under the organization's lock: the caller takes the write back where this throws. */
export async function refuseLeftByGroup(
  { tx, org }: Pick<Locked, 'tx' | 'org'>,
  group: string,
  selectors: string,
): Promise<void> {
  refuseOpened(await tx.run(findLeftByGroup, [org, selectors, group]));
}

/** The device, where it has the default group now or when all trials have ended. Values: organization, device. */
const findOpen = statement<OpenedRow>(
  'find_open_device',
  selectOpened(`d.id = $2 AND ((${isOpen}) OR (${isOpenAfterTrials}))`),
);

/** Judged after a write that gave the device a list of groups that are all watch only. */
export async function refuseLeftByList({ tx, org }: Pick<Locked, 'tx' | 'org'>, device: string): Promise<void> {
  refuseOpened(await tx.run(findOpen, [org, device]));
}
