/** Owns the reading of a group's record by the agent: every field of it is understood, or the group is not. */
import type { SecurityGroup } from '../../api/group.ts';
import { isObject } from '../../policy/json.ts';
import { parseGroupId } from '../../policy/ids.ts';
import { show } from '../../policy/problem.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
import { soundRules } from '../state/last-good-policy.ts';

/** A group that holds what this agent does not understand: a field of a newer server, say. */
export class NotUnderstood extends Error {
  readonly code = 'not_understood';
}

/** What the agent knows to do about, and nothing else: a name may stand here only once the agent does what its field says. */
const groupFields: readonly string[] = [
  'id',
  'group_name',
  'group_description',
  'org_id',
  'user_id',
  'is_default',
  'inbound_rules',
  'outbound_rules',
  'revision',
  'created_at',
  'updated_at',
];
const ruleFields: readonly string[] = ['ip_protocol', 'from_port', 'to_port', 'ip_ranges'];

const unknownIn = (record: object, known: readonly string[]): string | undefined =>
  Object.keys(record).find((name) => !known.includes(name));

/**
 * The field of the group itself that is not understood. It may say to whom the group applies, so such a group concerns
 * every device; what is not understood in a rule concerns only those that have the group.
 */
export const unknownGroupField = (group: SecurityGroup): string | undefined => unknownIn(group, groupFields);

export const groupNotUnderstood = (id: string, field: string): NotUnderstood =>
  new NotUnderstood(`the group ${id} has a field that this agent does not know: ${show(field)}; update the agent`);

/** A rule that is not understood must not be skipped, nor read without a part of it: the rest would be another policy. */
function readRules(value: unknown): PolicyGroup['inbound'] {
  for (const rule of Array.isArray(value) ? (value as readonly unknown[]) : []) {
    const unknown = isObject(rule) ? unknownIn(rule, ruleFields) : undefined;
    if (unknown !== undefined) throw new Error(`there is a field ${show(unknown)}, which this agent does not know`);
  }
  return soundRules(value ?? []);
}

export function readGroup(record: SecurityGroup): PolicyGroup | NotUnderstood {
  const { id, group_name, inbound_rules, outbound_rules } = record;
  const unknown = unknownGroupField(record);
  if (unknown !== undefined) return groupNotUnderstood(id, unknown);
  try {
    return {
      id: parseGroupId(id),
      name: group_name,
      inbound: readRules(inbound_rules),
      outbound: readRules(outbound_rules),
    };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return new NotUnderstood(`the group ${id} holds a rule that is not understood: ${message}`);
  }
}
