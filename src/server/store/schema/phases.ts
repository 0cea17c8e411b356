/** Owns the check whether stored data fit a phase (reference 1.1). The server refuses a phase below what is in use. */
import { listLimit, type Phase } from '../../../organization/decide/phase.ts';
import type { Runner } from '../postgres/connection.ts';
import { statement } from '../postgres/sql.ts';

/** The message names only the first few. */
const named = 20;

/** How long a list of a record is, and was before its trial, whose end brings it back. */
const lengths = (record: string, list: string): string =>
  ['', `-> 'trial' -> 'before' `]
    .map((at) => `coalesce(json_array_length((${record}.body || '}')::json ${at}-> '${list}'), 0)`)
    .join(', ');

const furtherGroups = statement<{ id: string; name: string; groups: number }>(
  'further_groups',
  `SELECT o.id, o.name, count(*) AS groups FROM security_groups g JOIN organizations o ON o.id = g.org_id
   WHERE NOT g.is_default GROUP BY o.id ORDER BY o.id`,
);
const longLists = statement<{ id: string; name: string; devices: number }>(
  'long_lists',
  `SELECT o.id, o.name, count(*) AS devices FROM devices d JOIN organizations o ON o.id = d.org_id
   WHERE cardinality(d.listed) > $1 AND greatest(${lengths('d', 'security_groups')}) > $1 GROUP BY o.id ORDER BY o.id`,
);

const appliedByLabel = statement<{ id: string; name: string; groups: number }>(
  'groups_by_label',
  `SELECT o.id, o.name, count(*) AS groups FROM security_groups g JOIN organizations o ON o.id = g.org_id
   WHERE g.selectors > 0 GROUP BY o.id ORDER BY o.id`,
);

const shown = (lines: readonly string[]): string[] =>
  lines.length <= named ? [...lines] : [...lines.slice(0, named), `and ${lines.length - named} more organizations`];

export async function phaseObstacles(runner: Runner, phase: Phase): Promise<readonly string[]> {
  const limit = listLimit[phase];
  const lists = (await runner.run(longLists, [limit])).map(
    ({ id, name, devices }) =>
      `organization ${id} (${name}): ${devices} ${devices === 1 ? 'device has' : 'devices have'} more than ${limit} ${limit === 1 ? 'group' : 'groups'} in the list`,
  );
  const byLabel = phase === 3 ? [] : await runner.run(appliedByLabel, []);
  const applied = byLabel.map(
    ({ id, name, groups: count }) =>
      `organization ${id} (${name}): ${count} ${count === 1 ? 'group applies' : 'groups apply'} by label`,
  );
  if (phase !== 1) return [...shown(lists), ...shown(applied)];
  const groups = (await runner.run(furtherGroups, [])).map(
    ({ id, name, groups: count }) =>
      `organization ${id} (${name}): ${count} ${count === 1 ? 'group' : 'groups'} besides the default`,
  );
  return [...shown(groups), ...shown(lists), ...shown(applied)];
}
