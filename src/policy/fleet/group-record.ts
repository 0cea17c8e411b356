/** Owns the reading of a group record from the server: either all of it is understood, or none of it is used. */
import { isUuid, parseGroupId } from '../ids.ts';
import { field, isObject, type JsonObject } from '../json.ts';
import { Problems } from '../problem.ts';
import {
  groupModes,
  guardrailKinds,
  type GroupBefore,
  type GroupMode,
  type PolicyGroup,
  type StoredRule,
} from '../rule.ts';
import { readTrial } from '../trial/read-trial.ts';
import { readRules, refuseUnknownFields } from '../validate.ts';
import { NotUnderstood } from './not-understood.ts';
import { readSelectors } from './read-peers.ts';

/**
 * Every field of a group's record. One that is not among them may change what the others mean, so a record that has it
 * is not read as if it were not there.
 */
const recordFields = [
  'id',
  'group_name',
  'group_description',
  'org_id',
  'user_id',
  'is_default',
  'inbound_rules',
  'outbound_rules',
  'applies_to',
  'guardrail',
  'mode',
  'revision',
  'created_at',
  'updated_at',
  'trial',
];

/** The fields of a group that a trial may have changed. */
const beforeFields = ['group_name', 'group_description', 'inbound_rules', 'outbound_rules', 'applies_to', 'mode'];

/** The server's own limits may be wider than ours; what it gave us was within them. */
const anyNumber = Number.POSITIVE_INFINITY;
const noLimits = {
  rulesPerDirection: anyNumber,
  rangesPerGroup: anyNumber,
  nameLength: anyNumber,
  descriptionLength: anyNumber,
  peersPerRule: anyNumber,
  selectorsPerGroup: anyNumber,
};

/** The rules of one direction, in whole or not at all. */
const rulesAt = (record: JsonObject, name: string, problems: Problems, pointer = ''): readonly StoredRule[] =>
  readRules(field(record, name) ?? [], `${pointer}/${name}`, problems, noLimits);

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/** Absent means that the group enforces. */
function modeAt(record: JsonObject, pointer: string, problems: Problems): GroupMode {
  const given = field(record, 'mode') ?? 'enforce';
  const mode = groupModes.find((one) => one === given);
  if (mode === undefined) problems.add(`${pointer}/mode`, 'not_one_of', () => 'this mode is unknown.');
  return mode ?? 'enforce';
}

function readBefore(before: JsonObject, pointer: string, problems: Problems): GroupBefore {
  refuseUnknownFields(before, beforeFields, pointer, problems);
  return {
    name: textOf(field(before, 'group_name')),
    inbound: rulesAt(before, 'inbound_rules', problems, pointer),
    outbound: rulesAt(before, 'outbound_rules', problems, pointer),
    appliesTo: readSelectors(field(before, 'applies_to') ?? [], `${pointer}/applies_to`, problems, anyNumber),
    mode: modeAt(before, pointer, problems),
  };
}

/** Reads the group from the record. Throws `NotUnderstood` for any value that it cannot read. */
export function readGroupRecord(record: unknown): PolicyGroup {
  const id = isObject(record) ? field(record, 'id') : undefined;
  const named = `the group ${typeof id === 'string' ? id.slice(0, 40) : 'without an id'}`;
  if (!isObject(record)) throw new NotUnderstood(named, 'it is not an object');
  const problems = new Problems();
  refuseUnknownFields(record, recordFields, '', problems);
  const name = field(record, 'group_name');
  const [inbound, outbound] = [rulesAt(record, 'inbound_rules', problems), rulesAt(record, 'outbound_rules', problems)];
  const given = { applies_to: field(record, 'applies_to'), guardrail: field(record, 'guardrail') };
  const appliesTo =
    given.applies_to === undefined ? undefined : readSelectors(given.applies_to, '/applies_to', problems, anyNumber);
  const guardrail = guardrailKinds.find((kind) => kind === given.guardrail);
  if (given.guardrail !== undefined && guardrail === undefined) {
    problems.add('/guardrail', 'not_one_of', () => 'this kind of guardrail is unknown.');
  }
  const mode = modeAt(record, '', problems);
  const trial = readTrial(field(record, 'trial'), '/trial', problems, (before, pointer) =>
    readBefore(before, pointer, problems),
  );
  if (!isUuid(id)) problems.add('/id', 'not_an_id', () => 'it has no id.');
  const [problem] = problems.problems;
  if (problem !== undefined) throw new NotUnderstood(named, `${problem.pointer}: ${problem.detail}`);
  return {
    id: parseGroupId(id),
    name: textOf(name),
    inbound,
    outbound,
    ...(appliesTo && { appliesTo }),
    ...(guardrail && { guardrail }),
    ...(mode !== 'enforce' && { mode }),
    ...(trial && { trial }),
  };
}
