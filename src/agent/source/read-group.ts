/**
 * Owns the reading of a group's record in two steps: first which devices it applies to, and its rules only for a device
 * that has the group.
 */
import type { SecurityGroup } from '../../api/group.ts';
import { readGroupRecord } from '../../policy/fleet/group-record.ts';
import { NotUnderstood } from '../../policy/fleet/not-understood.ts';
import type { PolicyGroup } from '../../policy/rule.ts';

/** To whom a group applies besides those that name it, and how. */
export type Application = Pick<PolicyGroup, 'appliesTo' | 'guardrail' | 'mode' | 'trial'>;

const read = new WeakMap<SecurityGroup, Application | NotUnderstood>();

/** The record without its rules. */
export function withoutRules(record: SecurityGroup): SecurityGroup {
  const { inbound_rules: _in, outbound_rules: _out, ...outline } = record;
  const before = record.trial?.before;
  if (record.trial === undefined || before === undefined || before === null) return outline;
  return { ...outline, trial: { ...record.trial, before: { ...before, inbound_rules: [], outbound_rules: [] } } };
}

/**
 * What the group says about itself, its rules aside. Where that is not understood, it may say that the group applies to anybody,
 * so such a group concerns every device. Records never change, so each is read once.
 */
export function readApplication(record: SecurityGroup): Application | NotUnderstood {
  let application = read.get(record);
  if (application === undefined) {
    application = understood(withoutRules(record));
    read.set(record, application);
  }
  return application;
}

/** The group, rules and all. */
export function understood(record: SecurityGroup): PolicyGroup | NotUnderstood {
  try {
    return readGroupRecord(record);
  } catch (error) {
    if (error instanceof NotUnderstood) return error;
    throw error;
  }
}
