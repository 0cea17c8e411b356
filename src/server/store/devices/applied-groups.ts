/** Owns which groups are in effect on a device, and why (reference 4.2 (1)). */
import type { AppliedGroup } from '../contract/records.ts';
import { effectivePolicy } from '../../../policy/effective.ts';
import { parseGroupId, type GroupId } from '../../../policy/ids.ts';
import type { GroupMode, GuardrailKind, ListBefore, PolicyGroup, Selector, Trial } from '../../../policy/rule.ts';
import { deviceFor } from '../../../policy/trial/trial.ts';
import type { GroupBefore, RecordTrial } from '../contract/records.ts';
import { inOrg, statement } from '../postgres/sql.ts';
import { enforcesAny, groupsByLabel, isReplacedByLabel } from './selectors.ts';

/** In the order in which they apply. No row: no such device. Values: organization, device. */
export const listApplied = statement<{ group_id: string; by: AppliedGroup['by'] }>(
  'list_applied_groups',
  `WITH device AS MATERIALIZED (SELECT d.security_groups, d.labels FROM devices d WHERE d.id = $2 AND ${inOrg('d')})
   SELECT group_id, by FROM (
     SELECT l.group_id, 'list' AS by, 3 AS part, l.place FROM device d, unnest(d.security_groups) WITH ORDINALITY AS l (group_id, place)
       JOIN security_groups g ON g.id = l.group_id AND g.mode = 'enforce'
     UNION ALL
     SELECT g.id, CASE WHEN g.guardrail IS NULL THEN 'label' ELSE 'guardrail' END, CASE g.guardrail WHEN 'forbid' THEN 1 WHEN 'require' THEN 2 ELSE 4 END, 0
     FROM device d JOIN security_groups g ON g.id IN ${groupsByLabel('d')} AND g.id <> ALL (d.security_groups) AND g.mode = 'enforce'
     UNION ALL
     SELECT g.id, 'default', 5, 0 FROM device d JOIN security_groups g ON g.org_id = $1 AND g.is_default
     WHERE NOT ${enforcesAny('d.security_groups')} AND NOT ${isReplacedByLabel('d.labels')}
   ) AS applied ORDER BY part, place, group_id`,
);

interface TriedDeviceRow {
  readonly security_groups: string[];
  readonly labels: string[];
  readonly trial: string | null;
  /** Groups that may apply by label or are on trial, and the default group: as a JSON array of `TriedGroup`. Null where nothing is on trial. */
  readonly groups: string | null;
}

interface TriedGroup {
  readonly id: string;
  readonly is_default: boolean;
  readonly guardrail: GuardrailKind | null;
  readonly mode: GroupMode;
  readonly applies_to: readonly Selector[];
  readonly trial: RecordTrial<GroupBefore> | null;
}

/** What decides where a change is being tried. No row: nothing is. Values: organization, device. */
export const findTried = statement<TriedDeviceRow>(
  'find_tried_groups',
  `SELECT d.security_groups, d.labels, d.trial, (
     SELECT json_agg(json_build_object('id', g.id, 'is_default', g.is_default, 'guardrail', g.guardrail, 'mode', g.mode, 'applies_to', g.applies_to::json, 'trial', g.trial::json))::text
     FROM security_groups g WHERE g.org_id = $1 AND (g.is_default OR g.applies_to <> '[]' OR g.trial IS NOT NULL OR g.mode = 'observe')) AS groups
   FROM devices d WHERE d.id = $2 AND ${inOrg('d')} AND (d.trial IS NOT NULL OR EXISTS (SELECT FROM trials t WHERE t.org_id = $1 AND t.state = 'pending'))`,
);

/** No rules: they do not decide which groups apply. */
const policyGroup = ({ id, applies_to, guardrail, mode, trial }: TriedGroup): PolicyGroup => ({
  id: parseGroupId(id),
  name: '',
  inbound: [],
  outbound: [],
  appliesTo: applies_to,
  mode,
  ...(guardrail !== null && { guardrail }),
  ...(trial !== null && {
    trial: {
      ...trial,
      before: trial.before && {
        name: '',
        inbound: [],
        outbound: [],
        appliesTo: trial.before.applies_to,
        mode: trial.before.mode ?? 'enforce',
      },
    },
  }),
});

/** The groups that apply, decided by the policy core: a device in the scope of a trial has other groups than one outside. */
export function appliedOnTrial({ labels, groups, ...device }: TriedDeviceRow): readonly AppliedGroup[] {
  const known = new Map<GroupId, PolicyGroup>();
  let defaultGroup: PolicyGroup | undefined;
  for (const group of JSON.parse(groups ?? '[]') as readonly TriedGroup[]) {
    const read = policyGroup(group);
    known.set(read.id, read);
    if (group.is_default) defaultGroup = read;
  }
  const trial = device.trial === null ? undefined : (JSON.parse(device.trial) as Trial<ListBefore>);
  const given = device.security_groups.map(parseGroupId);
  const { security_groups: list } = deviceFor({ security_groups: given, labels, ...(trial && { trial }) });
  const find = (id: GroupId): PolicyGroup => known.get(id) ?? { id, name: '', inbound: [], outbound: [] };
  const policy = effectivePolicy({ list: given, trial, labels, byLabel: known.values(), find, defaultGroup });
  if ('missing' in policy) return [];
  const { forbid = [], require = [] } = policy.guardrails ?? {};
  const why = (id: GroupId): AppliedGroup['by'] =>
    policy.source === 'default' ? 'default' : list.includes(id) ? 'list' : 'label';
  return [
    ...[...forbid, ...require].map(({ id }): AppliedGroup => ({ group_id: id, by: 'guardrail' })),
    ...policy.groups.map(({ id }): AppliedGroup => ({ group_id: id, by: why(id) })),
  ];
}
