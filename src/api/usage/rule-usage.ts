/** Owns the wire form of rule usage: how much of the observed traffic each rule of a group admitted, or refused as a guardrail (reference 4.18). */
import { Type } from 'typebox';
import type { GroupId } from '../../policy/ids.ts';
import { NormalizedRule } from '../group.ts';
import { id, strict, Timestamp, type Wire } from '../scalar.ts';

const usageStates = ['used', 'unused', 'unknown'] as const;

export const share = (description: string) => Type.Number({ minimum: 0, maximum: 1, description });

export const RuleUsage = Type.Object(
  {
    direction: Type.Enum(['inbound', 'outbound']),
    rule: Type.Integer({ minimum: 0, description: 'Its place among the rules of the direction, from 0.' }),
    rule_id: Type.String({
      description:
        'Identifies the rule by its content: a hash of its direction and its fields without the description. It stays the same when rules are reordered.',
    }),
    packets: Type.Integer({ minimum: 0, description: 'First packets of connections that the rule decided.' }),
    last_hit: Type.Optional(Timestamp),
    state: Type.Enum([...usageStates], {
      description:
        '`used`: traffic was seen. `unused`: none was seen, and all of it was observed. `unknown`: none was seen, and some was not observed.',
    }),
    observed: share('The share of the device-time since the rule exists in which its traffic was observed.'),
    since: { ...Timestamp, description: 'Since when the rule has been in the group, or the start of the window.' },
  },
  { ...strict, $id: 'RuleUsage', title: 'RuleUsage' },
);
export type RuleUsage = Wire<typeof RuleUsage>;

export const GroupUsage = Type.Object(
  {
    group_id: id<GroupId>('The group.'),
    since: { ...Timestamp, description: 'Start of the window.' },
    until: { ...Timestamp, description: 'End of the window: now.' },
    devices: Type.Integer({ minimum: 0, description: 'Devices that have the group now.' }),
    observed: share('The share of the device-time of the window in which traffic was observed.'),
    not_recorded: Type.Integer({
      minimum: 0,
      description:
        'Packets that agents counted and did not record, or whose rules they did not name, because there were too many. With any, no rule is `unused`.',
    }),
    rules: Type.Array(RuleUsage, { description: 'Every rule of the group: inbound, then outbound.' }),
  },
  { ...strict, $id: 'GroupUsage', title: 'GroupUsage' },
);
export type GroupUsage = Wire<typeof GroupUsage>;

export const UnusedRule = Type.Object(
  {
    group_id: id<GroupId>('The group.'),
    group_name: Type.String(),
    direction: Type.Enum(['inbound', 'outbound']),
    rule: NormalizedRule,
  },
  { ...strict, $id: 'UnusedRule', title: 'UnusedRule' },
);
export type UnusedRule = Wire<typeof UnusedRule>;

export const UnusedRules = Type.Object(
  {
    since: { ...Timestamp, description: 'Start of the window.' },
    until: { ...Timestamp, description: 'End of the window: now.' },
    count: Type.Integer({ minimum: 0, description: 'How many rules there are.' }),
    rules: Type.Array(UnusedRule, { description: 'The rules by group, at most 1,000.' }),
  },
  { ...strict, $id: 'UnusedRules', title: 'UnusedRules' },
);
export type UnusedRules = Wire<typeof UnusedRules>;

export const UsageQuery = Type.Object(
  {
    since: Type.Optional(
      Type.String({ format: 'date-time', description: 'RFC 3339. Start of the window; absent: seven days ago.' }),
    ),
  },
  { ...strict, $id: 'UsageQuery', title: 'UsageQuery' },
);
export type UsageQuery = Wire<typeof UsageQuery>;
