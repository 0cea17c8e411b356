/** Owns the wire form of security groups and their rules (reference 2.1–2.3). */
import { Type } from 'typebox';
import type { GroupId, OrganizationId, UserId } from '../policy/ids.ts';
import {
  groupModes,
  guardrailKinds,
  protocols,
  storedProtocols,
  type Peer as PolicyPeer,
  type SecurityRule as WrittenRule,
  type Selector as PolicySelector,
  type StoredRule,
} from '../policy/rule.ts';
import { limits } from './limits.ts';
import { givenId, id, Label, Name, Revision, ShortText, strict, Text, Timestamp, type Wire } from './scalar.ts';
import { recordTrial } from './trial/record-trial.ts';

const port = (description: string) => Type.Integer({ minimum: 0, maximum: 65_535, description });
const ranges = Type.Optional(
  Type.Array(Type.String(), {
    description: 'Each entry: an address, a CIDR prefix, or `first-last`; IPv4 or IPv6. Absent or empty: any address.',
  }),
);
const selectorLabels = Type.Array(Label, {
  minItems: 1,
  maxItems: limits.selectorLabels,
  uniqueItems: true,
  description: 'Devices that carry all of these.',
});
const allDevices = Type.Unsafe<true>({
  type: 'boolean',
  enum: [true],
  description: 'Every device of the organization.',
});
const oneKey = { ...strict, minProperties: 1, maxProperties: 1 } as const;

/** Devices by what they are: one of the two keys. */
export const Selector = Type.Unsafe<PolicySelector>(
  Type.Object(
    { labels: Type.Optional(selectorLabels), all_devices: Type.Optional(allDevices) },
    { ...oneKey, $id: 'Selector', title: 'Selector', examples: [{ labels: ['db', 'prod'] }, { all_devices: true }] },
  ),
);

/** Devices that a rule names as its far end: one of the three keys. */
export const Peer = Type.Unsafe<PolicyPeer>(
  Type.Object(
    {
      labels: Type.Optional(selectorLabels),
      device_id: Type.Optional(givenId('One device of the organization.')),
      all_devices: Type.Optional(allDevices),
    },
    {
      ...oneKey,
      $id: 'Peer',
      title: 'Peer',
      examples: [
        { labels: ['app', 'prod'] },
        { device_id: '018f9c3e-5b7a-7c1d-9e2f-3a4b5c6d7e8f' },
        { all_devices: true },
      ],
    },
  ),
);

const peers = Type.Optional(
  Type.Array(Peer, {
    minItems: 1,
    maxItems: limits.peersPerRule,
    description:
      'The far end is `ip_ranges` and the own addresses of all devices that are named here, at every moment. With `peers`, absent or empty `ip_ranges` add nothing.',
  }),
);
const expiry = Type.Optional(
  Type.String({
    format: 'date-time',
    description:
      'RFC 3339. From then on the rule matches nothing and its connections end; it stays stored, and outbound stays closed. In the future when it is written.',
  }),
);
const ruleDescription = Type.Optional(
  ShortText(
    'What people say about the rule, in one line; omitted when empty. It is no part of the rule: rules that differ in it only are one rule, with the first description. Agents do not get it.',
  ),
);
const from = port('Start of the port range. 0 with `to_port` 0: any port.');
const to = port('End of the port range, inclusive.');

/** A rule as a person writes it. Letter case of the protocol is ignored. */
const SecurityRule = Type.Unsafe<WrittenRule>(
  Type.Object(
    {
      ip_protocol: Type.String({ description: `One of ${protocols.join(', ')}, in any letter case.` }),
      from_port: from,
      to_port: to,
      ip_ranges: ranges,
      peers,
      expires_at: expiry,
      description: ruleDescription,
    },
    { ...strict, $id: 'SecurityRule', title: 'SecurityRule' },
  ),
);

/** A rule as it is stored and answered: normalized. */
export const NormalizedRule = Type.Unsafe<StoredRule>(
  Type.Object(
    {
      ip_protocol: Type.Enum([...storedProtocols]),
      from_port: from,
      to_port: to,
      ip_ranges: ranges,
      peers,
      expires_at: expiry,
      description: ruleDescription,
    },
    { ...strict, $id: 'NormalizedRule', title: 'NormalizedRule' },
  ),
);

const givenRules = (direction: string) =>
  Type.Optional(
    Type.Array(SecurityRule, {
      maxItems: limits.rulesPerDirection,
      description: `Allow rules for ${direction} traffic, in no order.`,
    }),
  );
const storedRules = (direction: string) =>
  Type.Optional(Type.Array(NormalizedRule, { description: `${direction} rules; omitted when empty.` }));

const guardrail = Type.Enum([...guardrailKinds], {
  description:
    'Only on a guardrail: `forbid` refuses what its rules match, `require` admits it, on the devices of `applies_to` and whatever other groups say. Never changed.',
});

const mode = Type.Enum([...groupModes], {
  description:
    '`observe`: watch only. The group decides nothing on any device, and is compared with what devices enforce. `enforce`, or absent: it enforces. Never on the default group.',
});

/** The fields that the end of a trial brings back. */
const groupBefore = Type.Union(
  [
    Type.Null(),
    Type.Object(
      {
        group_name: Type.String(),
        group_description: Type.String(),
        inbound_rules: Type.Array(NormalizedRule),
        outbound_rules: Type.Array(NormalizedRule),
        applies_to: Type.Array(Selector),
        mode: Type.Optional(mode),
      },
      strict,
    ),
  ],
  { description: 'The group as it was; null where it did not exist.' },
);

export const SecurityGroup = Type.Object(
  {
    id: id<GroupId>('The group.'),
    group_name: Type.String(),
    group_description: Type.String(),
    org_id: id<OrganizationId>('The organization it belongs to.'),
    user_id: Type.Optional(id<UserId>('The owning user; only on a user-owned group.')),
    is_default: Type.Optional(
      Type.Unsafe<true>(
        Type.Boolean({ const: true, description: "True on the organization's default group, otherwise omitted." }),
      ),
    ),
    applies_to: Type.Optional(
      Type.Array(Selector, { description: 'Devices that have the group without naming it; omitted when empty.' }),
    ),
    guardrail: Type.Optional(guardrail),
    mode: Type.Optional({ ...mode, description: '`observe` on a group that is watch only; omitted when it enforces.' }),
    inbound_rules: storedRules('Inbound'),
    outbound_rules: storedRules('Outbound'),
    trial: recordTrial(Selector, groupBefore),
    revision: Revision,
    created_at: Timestamp,
    updated_at: Timestamp,
  },
  { ...strict, $id: 'SecurityGroup', title: 'SecurityGroup' },
);
export type SecurityGroup = Wire<typeof SecurityGroup>;

/** A warning about a write that was saved as requested. */
export const GroupWarning = Type.Object(
  {
    pointer: Type.String({
      description: 'JSON pointer to the rule in the record; empty where it is about all of them.',
    }),
    code: Type.Enum(['void_by_guardrail', 'not_compared', 'same_name'], {
      description:
        'Guardrails forbid all that the rule admits; or there is too much to compare, and further rules may be void; or other groups of the same owner have this name.',
    }),
    detail: Type.String({ description: 'A sentence for a person.' }),
    guardrail_ids: Type.Array(id<GroupId>('A guardrail.'), {
      description: 'The guardrails that make the rule void, together; or that were not compared.',
    }),
    group_ids: Type.Optional(
      Type.Array(id<GroupId>('A group.'), { description: 'The other groups with this name; only with `same_name`.' }),
    ),
  },
  { ...strict, $id: 'GroupWarning', title: 'GroupWarning' },
);
export type GroupWarning = Wire<typeof GroupWarning>;

/** The answer to a write of a group: the record, and warnings if there are any. */
export const WrittenGroup = Type.Object(
  { ...SecurityGroup.properties, warnings: Type.Optional(Type.Array(GroupWarning)) },
  { ...strict, $id: 'WrittenGroup', title: 'WrittenGroup' },
);
export type WrittenGroup = Wire<typeof WrittenGroup>;

const givenSelectors = Type.Optional(
  Type.Array(Selector, {
    maxItems: limits.selectorsPerGroup,
    description:
      'Devices that have the group without naming it. Groups of the organization in phase 3, never the default group.',
    examples: [[{ labels: ['db', 'prod'] }], [{ all_devices: true }]],
  }),
);

const givenOrganization = Type.Optional(givenId('May be given if it names the organization of the path.'));

export const AddSecurityGroup = Type.Object(
  {
    group_name: Name('Name of the group.'),
    group_description: Type.Optional(Text('Free text; stored as "" when absent.')),
    org_id: givenOrganization,
    inbound_rules: givenRules('inbound'),
    outbound_rules: givenRules('outbound'),
    applies_to: givenSelectors,
    guardrail: Type.Optional(guardrail),
    mode: Type.Optional(mode),
  },
  {
    ...strict,
    $id: 'AddSecurityGroup',
    title: 'AddSecurityGroup',
    examples: [
      // Databases admit every device with the label app.
      {
        group_name: 'postgres',
        applies_to: [{ labels: ['db'] }],
        inbound_rules: [{ ip_protocol: 'tcp', from_port: 5_432, to_port: 5_432, peers: [{ labels: ['app'] }] }],
      },
      // No device admits telnet, also when one of its groups allows it.
      {
        group_name: 'no telnet',
        guardrail: 'forbid',
        applies_to: [{ all_devices: true }],
        inbound_rules: [{ ip_protocol: 'tcp', from_port: 23, to_port: 23 }],
      },
    ],
  },
);
export type AddSecurityGroup = Wire<typeof AddSecurityGroup>;

export const UpdateSecurityGroup = Type.Object(
  {
    group_name: Type.Optional(Name('Name of the group.')),
    group_description: Type.Optional(Text('Free text.')),
    org_id: givenOrganization,
    inbound_rules: givenRules('inbound'),
    outbound_rules: givenRules('outbound'),
    applies_to: givenSelectors,
    guardrail: Type.Optional(guardrail),
    mode: Type.Optional(mode),
  },
  { ...strict, $id: 'UpdateSecurityGroup', title: 'UpdateSecurityGroup' },
);
export type UpdateSecurityGroup = Wire<typeof UpdateSecurityGroup>;
