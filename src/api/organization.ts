/** Owns the wire form of organizations and their members. */
import { Type } from 'typebox';
import type { DeviceId, GroupId, InvitationId, OrganizationId, UserId } from '../policy/ids.ts';
import { givenId, id, Name, Revision, ShortText, strict, Text, Timestamp, type Wire } from './scalar.ts';

/** What agents record of the traffic, from nothing to the first packet of every connection (reference 4.17). */
const observeModes = ['off', 'counters', 'refused', 'all'] as const;
/** What a sender gets whose packet no rule admits. */
const refusalModes = ['drop', 'reject'] as const;

const settings = {
  observe: Type.Enum([...observeModes], {
    description:
      'What agents record. `off`: nothing. `counters`: packets per group. `refused`: also the far address, protocol and port of first packets that no rule admitted. ' +
      '`all`: also of admitted ones. Never payload.',
  }),
  refuse_with: Type.Enum([...refusalModes], {
    description:
      '`drop`: refused packets are dropped without an answer. `reject`: the sender gets a TCP reset or ICMP administratively prohibited, rate-limited. ' +
      'Does not change what is refused.',
  }),
};

/** Settings of the organization that agents follow. They do not change any verdict, and no digest covers them. */
export const AgentSettings = Type.Object(settings, { ...strict, $id: 'AgentSettings', title: 'AgentSettings' });
export type AgentSettings = Wire<typeof AgentSettings>;

/** What holds until an owner changes it, and at an agent whose server sends no settings. */
export const defaultAgentSettings: AgentSettings = { observe: 'counters', refuse_with: 'drop' };

export const Organization = Type.Object(
  {
    id: id<OrganizationId>('The organization.'),
    name: Type.String(),
    description: Type.String(),
    owner_id: id<UserId>('The first owner; there may be other owners (see the members).'),
    security_groups: Type.Array(id<GroupId>('A security group.'), {
      description: "Ids of the organization's own groups, the default group first.",
    }),
    ...settings,
    revision: Type.Integer({ ...Revision, description: "The organization's head: its newest revision." }),
    created_at: Timestamp,
    updated_at: Timestamp,
  },
  { ...strict, $id: 'Organization', title: 'Organization' },
);
export type Organization = Wire<typeof Organization>;

export const AddOrganization = Type.Object(
  { name: Name('Name of the organization.'), description: Type.Optional(Text('Free text.')) },
  { ...strict, $id: 'AddOrganization', title: 'AddOrganization' },
);
export type AddOrganization = Wire<typeof AddOrganization>;

export const UpdateOrganization = Type.Object(
  {
    name: Type.Optional(Name('Name of the organization.')),
    description: Type.Optional(Text('Free text.')),
    observe: Type.Optional(settings.observe),
    refuse_with: Type.Optional(settings.refuse_with),
  },
  { ...strict, $id: 'UpdateOrganization', title: 'UpdateOrganization' },
);
export type UpdateOrganization = Wire<typeof UpdateOrganization>;

const role = Type.Enum(['owner', 'member'], {
  description: 'An organization has one owner or several; owners change everything in it.',
});

export const Member = Type.Object(
  {
    user_id: id<UserId>('The user.'),
    username: Type.String(),
    role,
    accepted: Type.Optional(
      Type.Unsafe<false>(
        Type.Boolean({
          const: false,
          description:
            'On an owner who was made one by somebody else and has not accepted yet, otherwise omitted. Such an owner has the rights of an owner, and does not count as one who stays.',
        }),
      ),
    ),
    created_at: Timestamp,
  },
  { ...strict, $id: 'Member', title: 'Member' },
);
export type Member = Wire<typeof Member>;
export type MemberRole = Member['role'];

export const UpdateMember = Type.Object(
  { role },
  { ...strict, $id: 'UpdateMember', title: 'UpdateMember', examples: [{ role: 'owner' }] },
);
export type UpdateMember = Wire<typeof UpdateMember>;

const devices = (description: string) => Type.Array(id<DeviceId>('A device.'), { description });

/** The answer to a member's removal: the member, and what went along. */
export const RemovedMember = Type.Object(
  {
    ...Member.properties,
    deleted_devices: devices("The member's devices that were deleted."),
    deleted_groups: Type.Array(id<GroupId>('A security group.'), {
      description: "The member's groups that were deleted.",
    }),
    kept_devices: devices('The devices that the caller took over, by `keep=devices`.'),
    revision: Type.Optional(
      Type.Integer({
        ...Revision,
        description:
          'Of the organization, with all of this: what `convergence` may be asked about. Absent where nothing went along.',
      }),
    ),
  },
  { ...strict, $id: 'RemovedMember', title: 'RemovedMember' },
);
export type RemovedMember = Wire<typeof RemovedMember>;

export const AddMember = Type.Object(
  {
    user_id: Type.Optional(givenId('The user to add: this or `username`.')),
    username: Type.Optional(Name('The user to add: this or `user_id`.')),
  },
  { ...strict, $id: 'AddMember', title: 'AddMember' },
);
export type AddMember = Wire<typeof AddMember>;

/** A person who becomes a member at the next sign-in, though the server may not know this person yet. */
export const Invitation = Type.Object(
  {
    id: id<InvitationId>('The invitation.'),
    organization_id: id<OrganizationId>('The organization.'),
    issuer: Type.String({ description: 'The identity provider that must vouch for the person.' }),
    email: Type.Optional(Type.String({ description: 'In lower case. The provider must have verified it.' })),
    username: Type.Optional(Type.String({ description: 'The name at the provider.' })),
    role,
    invited_by: id<UserId>('The owner who made it. It ends with the ownership of this user.'),
    created_at: Timestamp,
    expires_at: Timestamp,
  },
  { ...strict, $id: 'Invitation', title: 'Invitation' },
);
export type Invitation = Wire<typeof Invitation>;

export const AddInvitation = Type.Object(
  {
    email: Type.Optional(
      ShortText('This or `username`. It counts only where the provider says `email_verified: true`.'),
    ),
    username: Type.Optional(
      Name('This or `email`: the name at the provider, in the claim that the server takes usernames from.'),
    ),
    issuer: Type.Optional(ShortText('The provider; may be absent where the server has only one.')),
    role: Type.Optional(role),
    expires_at: Type.Optional(
      Type.String({ format: 'date-time', description: 'When it ends; a week from now when absent, at most 90 days.' }),
    ),
  },
  { ...strict, $id: 'AddInvitation', title: 'AddInvitation', examples: [{ email: 'kim@example.org', role: 'member' }] },
);
export type AddInvitation = Wire<typeof AddInvitation>;
