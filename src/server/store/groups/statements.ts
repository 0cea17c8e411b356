/** Owns the SQL of security groups. */
import { inOrg, statement, withinBytes, type PageRow } from '../postgres/sql.ts';
import { isMember, isVisible, onlyFor } from '../schema/fragments.ts';
import { singleStatement, type SingleStatementOperation } from '../write/single-statement.ts';
import { askedColumns, bySingleInsert, bySingleUpdate, keepStates } from '../write/history.ts';
import { refuseNewerGroup } from '../write/newer-record.ts';
import { headVersion, logChanges, takeRevision, takeRevisions } from '../write/revisions.ts';
import { groupBody, storedGroupBody } from './body.ts';
import { dropSelectors, forbidsAnything, keepSelectors } from '../devices/selectors.ts';

interface BodyRow {
  readonly id: string;
  readonly revision: number;
  readonly body: string;
}

const visible = isVisible('g', '$2');
/** `$3`: all owners (null), the organization (''), or one user's id. */
const ownedBy = `($3::text IS NULL OR coalesce(g.user_id::text, '') = $3)`;

/** Values: organization, reader, owner, greater than this revision, after this id, limit, bytes. */
export const listGroups = statement<BodyRow & PageRow>(
  'list_groups',
  withinBytes(
    `SELECT g.id, g.revision, g.body FROM security_groups g
     WHERE g.org_id = $1 AND ${visible} AND ${ownedBy} AND g.revision > $4 AND g.id > $5 ORDER BY g.id LIMIT $6`,
    { bytes: '$7', length: 'octet_length(p.body)', order: 'p.id' },
  ),
);

/** Values: organization, reader, owner, id. */
export const getGroup = statement<BodyRow>(
  'get_group',
  `SELECT g.id, g.revision, g.body FROM security_groups g WHERE g.id = $4 AND ${inOrg('g')} AND ${visible} AND ${ownedBy}`,
);

/** Values: organization, ids. */
export const findGroups = statement<BodyRow>(
  'groups_by_id',
  `SELECT g.id, g.revision, g.body FROM security_groups g WHERE g.id = ANY ($2::uuid[]) AND ${inOrg('g')}`,
);

/** Values: organization, name, owner as in `ownedBy`, the group that is not counted. */
export const findSameName = statement<{ id: string }>(
  'groups_same_name',
  `SELECT g.id FROM security_groups g WHERE g.org_id = $1 AND g.group_name = $2 AND ${ownedBy} AND g.id <> $4 ORDER BY g.id LIMIT 8`,
);

/**
 * Values: organization, from when, until when. The moments in between at which rules of a group expire, and since when the group has had rules that
 * expire then, as far as the history goes back.
 */
export const findExpiringRules = statement<{
  id: string;
  group_name: string;
  expires_at: string;
  rules: number;
  since: Date;
}>(
  'expiring_rules',
  `SELECT g.id, g.group_name, e.expires_at, e.rules,
     coalesce((SELECT min(h.at) FROM history h WHERE h.org_id = g.org_id AND h.kind = 'security-groups' AND h.id = g.id
       AND position('"expires_at":"' || e.expires_at || '"' IN h.body) > 0), g.updated_at) AS since
   FROM security_groups g, LATERAL (
     SELECT r ->> 'expires_at' AS expires_at, count(*)::integer AS rules
     FROM (SELECT json_array_elements(g.inbound_rules::json) AS r UNION ALL SELECT json_array_elements(g.outbound_rules::json)) AS all_rules
     WHERE r ->> 'expires_at' IS NOT NULL GROUP BY 1) e
   WHERE g.org_id = $1 AND position('"expires_at":' IN g.body) > 0
     AND e.expires_at::timestamptz > $2::timestamptz AND e.expires_at::timestamptz <= $3::timestamptz
   ORDER BY g.id, e.expires_at LIMIT 1000`,
);

/** Values: organization, reader, ids. */
export const findVisibleGroups = statement<BodyRow>(
  'visible_groups_by_id',
  `SELECT g.id, g.revision, g.body FROM security_groups g WHERE g.id = ANY ($3::uuid[]) AND ${inOrg('g')} AND ${visible}`,
);

const log = (type: 'change' | 'delete', from: string): string =>
  logChanges({
    kind: 'security-groups',
    type,
    from,
    onlyFor: onlyFor(from),
    leftAt: `${from}.left_at`,
    ...(type === 'delete' && { born: `${from}.born` }),
  });

/** Beside the log, which forgets soon, the history. */
const keep = (asked: typeof bySingleInsert | typeof bySingleUpdate): string => `,
  kept AS (${keepStates({ ...asked, kind: 'security-groups', type: 'change', owner: 'new.user_id', onlyFor: onlyFor('new') })})`;

const columns =
  'org_id, id, user_id, is_default, is_applied, left_at, group_name, group_description, inbound_rules, outbound_rules, applies_to, guardrail, mode, inbound_ranges, outbound_ranges, trial, created_at, updated_at, revision';

const texts = {
  group_name: 'text',
  group_description: 'text',
  inbound_rules: 'text',
  outbound_rules: 'text',
  applies_to: 'text',
  mode: 'text',
};
const textColumns = Object.keys(texts);

/** How many address ranges the rules name, and how many they may. */
const ranges = { inbound_ranges: 'integer', outbound_ranges: 'integer', most_ranges: 'integer' };

/** The organization's default group says so by `is_default`. */
const groupCreation = (name: string, selectors = ''): SingleStatementOperation =>
  singleStatement(name, {
    columns: {
      id: 'uuid',
      user_id: 'uuid',
      is_default: 'boolean',
      ...texts,
      guardrail: 'text',
      ...ranges,
      trial: 'text',
      at: 'timestamptz',
      actor: 'uuid',
      most: 'integer',
    },
    adds: 'groups',
    select: `h.org_id, n.id, n.user_id, coalesce(n.is_default, false) AS is_default, false AS is_applied, 0::bigint AS left_at,
    n.group_name, n.group_description, n.inbound_rules, n.outbound_rules, coalesce(n.applies_to, '[]') AS applies_to, n.guardrail, coalesce(n.mode, 'enforce') AS mode, coalesce(n.inbound_ranges, 0) AS inbound_ranges, coalesce(n.outbound_ranges, 0) AS outbound_ranges, n.trial, n.at AS created_at, n.at AS updated_at`,
    owned: { whose: 'n.user_id' },
    refusal: `WHEN n.user_id IS NOT NULL AND NOT ${isMember('n.user_id')} THEN 'not_a_member'
    WHEN n.inbound_ranges + n.outbound_ranges > n.most_ranges THEN 'too_many_ranges'`,
    write: `new AS (INSERT INTO security_groups (${columns}, born, body) SELECT ${columns}, n.revision, ${groupBody('n')} FROM numbered n RETURNING *)`,
    log: log('change', 'new'),
    besides: `${keep(bySingleInsert)} ${selectors}`,
    oldBody: 'NULL',
    standing: 'NULL::bigint',
    tells: forbidsAnything,
  });

export const createGroup = groupCreation('create_group');

/** In a transaction: with selectors. What its devices have then is looked at afterwards. */
export const createGroupSelectors = groupCreation('create_group_selectors', `, selectors AS (${keepSelectors('new')})`);

/** Counted under the lock: a direction that the write does not change counts with its current ranges. */
const newRanges = '(coalesce(n.inbound_ranges, g.inbound_ranges) + coalesce(n.outbound_ranges, g.outbound_ranges))';
const grows = `${newRanges} > g.inbound_ranges + g.outbound_ranges`;
/** Whether all groups of the organization together would have more than a device may have: only then does anybody look at devices. */
const mayOverfill = `(SELECT sum(o.inbound_ranges + o.outbound_ranges) FROM security_groups o WHERE o.org_id = $1 AND o.id <> g.id) + ${newRanges} > n.most_device_ranges`;

const patched = textColumns.map((column) => `coalesce(n.${column}, g.${column})`);

/** What of a group decides verdicts. */
const verdictColumns = ['inbound_rules', 'outbound_rules', 'applies_to', 'mode'];

/** `owner` as in `ownedBy`; a text that is null stays. */
const groupUpdate = (name: string, rangeRefusals: string, selectors = ''): SingleStatementOperation =>
  singleStatement(name, {
    columns: {
      id: 'uuid',
      owner: 'text',
      expected: 'bigint',
      ...texts,
      ...ranges,
      most_device_ranges: 'integer',
      trial: 'text',
      at: 'timestamptz',
      actor: 'uuid',
    },
    select: `h.org_id, n.id, g.user_id, g.is_default, g.is_applied, g.left_at, g.guardrail,
    ${textColumns.map((column, index) => `${patched[index]} AS ${column}`).join(', ')}, coalesce(n.inbound_ranges, g.inbound_ranges) AS inbound_ranges, coalesce(n.outbound_ranges, g.outbound_ranges) AS outbound_ranges,
    n.trial, g.created_at, n.at AS updated_at`,
    from: `LEFT JOIN security_groups g ON g.id = n.id AND ${inOrg('g')}`,
    owned: { whose: 'g.user_id', missing: `g.id IS NULL OR coalesce(g.user_id::text, '') <> n.owner` },
    refusal: `WHEN g.revision <> n.expected THEN 'precondition_failed'
    WHEN g.trial IS NOT NULL THEN 'trial_pending'
    WHEN (${patched.join(', ')}) = (${textColumns.map((column) => `g.${column}`).join(', ')}) THEN 'unchanged'
    ${refuseNewerGroup(storedGroupBody('g'))} ${rangeRefusals}`,
    write: `new AS (
    UPDATE security_groups g SET ${textColumns.map((column) => `${column} = n.${column}`).join(', ')},
      inbound_ranges = n.inbound_ranges, outbound_ranges = n.outbound_ranges, trial = n.trial, updated_at = n.updated_at, revision = n.revision, body = ${groupBody('n')}
    FROM numbered n WHERE g.id = n.id RETURNING g.*, ${askedColumns})`,
    log: log('change', 'new'),
    changesVerdicts: `(${verdictColumns.map((column) => patched[textColumns.indexOf(column)]).join(', ')}) <> (${verdictColumns.map((column) => `g.${column}`).join(', ')})`,
    besides: `${keep(bySingleUpdate)} ${selectors}`,
    oldBody: 'g.body',
    standing: 'g.revision',
    tells: forbidsAnything,
  });

/** Where no more ranges can come of it: preparing the look at devices costs a fifth of such a write, even where it is not taken. */
export const updateGroupNoLarger = groupUpdate('update_group_no_larger', '');

const ownRanges = `WHEN ${grows} AND ${newRanges} > n.most_ranges THEN 'too_many_ranges'`;

/** With rules, whose ranges are counted. */
export const updateGroup = groupUpdate(
  'update_group',
  `${ownRanges}
    WHEN ${grows} AND (g.is_default AND ${newRanges} > n.most_device_ranges OR ${mayOverfill}) THEN 'too_many_device_ranges'`,
);

/** In a transaction: with selectors. What its devices have then is looked at afterwards. */
export const updateGroupSelectors = groupUpdate(
  'update_group_selectors',
  `${ownRanges}
    WHEN ${grows} AND g.is_default AND ${newRanges} > n.most_device_ranges THEN 'too_many_device_ranges'`,
  `, dropped AS (${dropSelectors('new')}), selectors AS (${keepSelectors('new')})`,
);

/** Values: organization. */
export const sumBytes = statement<{ bytes: string }>(
  'sum_group_bytes',
  'SELECT bytes::text AS bytes FROM group_sums WHERE org_id = $1 AND owner_id = $1',
);

/** Which of these ids a group has, in any organization. Values: ids. */
export const takenGroupIds = statement<{ id: string }>(
  'taken_group_ids',
  'SELECT g.id FROM security_groups g WHERE g.id = ANY ($1::uuid[])',
);
/** In a transaction. Values: organization, id. */
export const findGroup = statement<{
  user_id: string | null;
  is_default: boolean;
  guardrail: string | null;
  revision: number;
  inbound_rules: string;
  outbound_rules: string;
  applies_to: string;
  mode: string;
  group_name: string;
  group_description: string;
  trial: string | null;
}>(
  'find_group',
  `SELECT user_id, is_default, guardrail, revision, inbound_rules, outbound_rules, applies_to, mode, group_name, group_description, trial FROM security_groups g WHERE id = $2 AND ${inOrg('g')}`,
);

/** In a transaction: keys that still admit devices with this group. Values: organization, group, now. */
export const findKeys = statement<{ id: string; name: string; security_groups: string[]; labels: string[] }>(
  'find_keys_of_group',
  `SELECT k.id, k.name, k.security_groups, k.labels FROM enrollment_keys k
   WHERE k.org_id = $1 AND $2 = ANY (k.security_groups) AND k.uses_left > 0 AND k.expires_at > $3 ORDER BY k.id`,
);
const fewer = { of: 'groups', by: '-' } as const;
const deleteGroups = (which: string, revisions: string): string =>
  `WITH gone AS (DELETE FROM security_groups g WHERE ${which} RETURNING g.org_id, g.id, g.user_id, g.is_applied, g.left_at, g.body, g.born, ${headVersion}),
   ${revisions},
   kept AS (${keepStates({ kind: 'security-groups', type: 'delete', from: 'numbered', owner: 'numbered.user_id', onlyFor: onlyFor('numbered'), by: '$3::uuid', at: '$4::timestamptz' })})
   ${log('delete', 'numbered')} RETURNING id, revision, body`;
/** In a transaction. Values: organization, id, who, now. */
export const deleteGroup = statement<BodyRow>(
  'delete_group',
  deleteGroups(`g.id = $2 AND ${inOrg('g')}`, takeRevision('gone', fewer)),
);
/** In a transaction. Values: organization, user, who, now. */
export const deleteMemberGroups = statement<BodyRow>(
  'delete_member_groups',
  deleteGroups('g.org_id = $1 AND g.user_id = $2', takeRevisions('gone', 'ORDER BY gone.id', fewer)),
);
