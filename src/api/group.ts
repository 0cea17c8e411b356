/** Owns the wire form of security groups and their rules (reference 2.1–2.3). */
import { Type } from 'typebox';
import type { GroupId, OrganizationId, UserId } from '../policy/ids.ts';
import { protocols, storedProtocols, type SecurityRule as WrittenRule, type StoredRule } from '../policy/rule.ts';
import { limits } from './limits.ts';
import { givenId, id, Name, Revision, strict, Text, Timestamp, type Wire } from './scalar.ts';

const port = (description: string) => Type.Integer({ minimum: 0, maximum: 65_535, description });
const ranges = Type.Optional(
  Type.Array(Type.String(), {
    description: 'Each entry: an address, a CIDR prefix, or `first-last`; IPv4 or IPv6. Absent or empty: any address.',
  }),
);
const from = port('Start of the port range. 0 with `to_port` 0: any port.');
const to = port('End of the port range, inclusive.');

/** A rule as a person writes it. Letter case of the protocol is ignored. */
export const SecurityRule = Type.Unsafe<WrittenRule>(
  Type.Object(
    {
      ip_protocol: Type.String({ description: `One of ${protocols.join(', ')}, in any letter case.` }),
      from_port: from,
      to_port: to,
      ip_ranges: ranges,
    },
    { ...strict, $id: 'SecurityRule', title: 'SecurityRule' },
  ),
);

/** A rule as it is stored and answered: normalized. */
export const NormalizedRule = Type.Unsafe<StoredRule>(
  Type.Object(
    { ip_protocol: Type.Enum([...storedProtocols]), from_port: from, to_port: to, ip_ranges: ranges },
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
    inbound_rules: storedRules('Inbound'),
    outbound_rules: storedRules('Outbound'),
    revision: Revision,
    created_at: Timestamp,
    updated_at: Timestamp,
  },
  { ...strict, $id: 'SecurityGroup', title: 'SecurityGroup' },
);
export type SecurityGroup = Wire<typeof SecurityGroup>;

const givenOrganization = Type.Optional(givenId('May be given if it names the organization of the path.'));

export const AddSecurityGroup = Type.Object(
  {
    group_name: Name('Name of the group.'),
    group_description: Type.Optional(Text('Free text; stored as "" when absent.')),
    org_id: givenOrganization,
    inbound_rules: givenRules('inbound'),
    outbound_rules: givenRules('outbound'),
  },
  { ...strict, $id: 'AddSecurityGroup', title: 'AddSecurityGroup' },
);
export type AddSecurityGroup = Wire<typeof AddSecurityGroup>;

export const UpdateSecurityGroup = Type.Object(
  {
    group_name: Type.Optional(Name('Name of the group.')),
    group_description: Type.Optional(Text('Free text.')),
    org_id: givenOrganization,
    inbound_rules: givenRules('inbound'),
    outbound_rules: givenRules('outbound'),
  },
  { ...strict, $id: 'UpdateSecurityGroup', title: 'UpdateSecurityGroup' },
);
export type UpdateSecurityGroup = Wire<typeof UpdateSecurityGroup>;
