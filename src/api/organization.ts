/** Owns the wire form of organizations and their members. */
import { Type } from 'typebox';
import type { DeviceId, GroupId, OrganizationId, UserId } from '../policy/ids.ts';
import { givenId, id, Name, Revision, strict, Text, Timestamp, type Wire } from './scalar.ts';

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
  { user_id: id<UserId>('The user.'), username: Type.String(), role, created_at: Timestamp },
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
