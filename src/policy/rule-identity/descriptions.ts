/** Owns the removal of rule descriptions from a group's record. Agents never get them: a description changes nothing on a device. */
import { isObject } from '../json.ts';

/** A list of rules without their descriptions; other values as they are. */
function bareRules(rules: unknown): unknown {
  if (!Array.isArray(rules)) return rules;
  return rules.map((rule: unknown) => {
    if (!isObject(rule)) return rule;
    const { description: _, ...rest } = rule;
    return rest;
  });
}

/** The record without the descriptions of its rules, those before a trial included. */
export function withoutDescriptions(record: object): object {
  const { inbound_rules, outbound_rules, trial, ...rest }: Readonly<Record<string, unknown>> = { ...record };
  const before = isObject(trial) ? trial['before'] : undefined;
  return {
    ...rest,
    ...(inbound_rules !== undefined && { inbound_rules: bareRules(inbound_rules) }),
    ...(outbound_rules !== undefined && { outbound_rules: bareRules(outbound_rules) }),
    ...(trial !== undefined && {
      trial: isObject(trial) && isObject(before) ? { ...trial, before: withoutDescriptions(before) } : trial,
    }),
  };
}

/** In JSON text a quotation mark inside a string is escaped, so this finds the field and never a text that looks like it. */
const descriptionField = '"description":';

/** The same for a record as JSON text. Undefined where it has no description, so that the text can be shared. */
export function jsonWithoutDescriptions(json: string): string | undefined {
  if (!json.includes(descriptionField)) return undefined;
  return JSON.stringify(withoutDescriptions(JSON.parse(json) as object));
}
