/** Owns the wire form of devices (reference 2.4) and of their status (reference 2.11). */
import { Type } from 'typebox';
import type { DeviceId, GroupId, OrganizationId, UserId } from '../policy/ids.ts';
import { InForceWord } from './enforcement/convergence.ts';
import { Isolation, IsolationWarning, RefusedAddresses } from './isolation.ts';
import { GroupPackets, PacketReport } from './enforcement/overview.ts';
import { Selector } from './group.ts';
import { largestRevision, limits, mostCountedGroups } from './limits.ts';
import { AgentSettings } from './organization.ts';
import {
  Digest,
  givenId,
  GivenLabels,
  id,
  Labels,
  Name,
  Revision,
  ShortText,
  strict,
  Text,
  Timestamp,
  type Wire,
} from './scalar.ts';
import { recordTrial } from './trial/record-trial.ts';

/** What an agent learns about where its device can be reached; a device token may change these on its own device and nothing else. */
const endpoint = {
  local_ip: ShortText('Address with port, e.g. `10.0.0.5:51820`; may be empty.'),
  reflexive_ip4: ShortText('Public IPv4 address, as other hosts see it; may be empty.'),
  endpoint_local_address_ip4: ShortText('IPv4 address on the local network; may be empty.'),
  symmetric_nat: Type.Boolean({ description: 'Whether the device is behind a symmetric NAT.' }),
};
export const endpointFields = ['local_ip', 'reflexive_ip4', 'endpoint_local_address_ip4', 'symmetric_nat'] as const;

const described = {
  ...endpoint,
  tunnel_ip: ShortText('Address inside the tunnel; may be empty.'),
  child_prefix: Type.Union(
    [Type.Null(), Type.Array(Type.String({ maxLength: limits.name }), { maxItems: limits.childPrefixes })],
    { description: 'Null, or the CIDR prefixes behind the device.' },
  ),
  relay: Type.Boolean({ description: 'Whether the device relays traffic.' }),
  discovery: Type.Boolean({ description: 'Whether the device is a discovery node.' }),
  hostname: ShortText('Name of the machine; may be empty.'),
};

export const Device = Type.Object(
  {
    id: id<DeviceId>('The device.'),
    user_id: id<UserId>("The device's user."),
    organization_id: id<OrganizationId>('The organization it belongs to.'),
    public_key: Type.String({ description: 'Tunnel public key; unique within the organization.' }),
    ...described,
    addresses: Type.Optional(
      Type.Array(Type.String(), { description: 'Its own addresses besides `tunnel_ip`; omitted when empty.' }),
    ),
    labels: Type.Optional(Labels('What the device is, sorted; omitted when empty. Set by owners only.')),
    security_groups: Type.Optional(
      Type.Array(id<GroupId>('A security group.'), {
        description: 'The groups applied to the device; omitted when empty: then the default group applies.',
      }),
    ),
    isolated: Type.Optional(Isolation),
    trial: recordTrial(Selector, Type.Object({ security_groups: Type.Array(id<GroupId>('A group.')) }, strict)),
    revision: Revision,
    created_at: Timestamp,
    updated_at: Timestamp,
  },
  { ...strict, $id: 'Device', title: 'Device' },
);
export type Device = Wire<typeof Device>;

export const MoveDevice = Type.Object(
  { user_id: givenId('The new user: a member of the organization.') },
  { ...strict, $id: 'MoveDevice', title: 'MoveDevice' },
);
export type MoveDevice = Wire<typeof MoveDevice>;

const { id: identityId, hostname, tunnel_ip, addresses, labels, security_groups, isolated, trial } = Device.properties;

/** What a device is and which groups it has: the view `identity` of a watched device, with the revision of its last such change. */
export const DeviceIdentity = Type.Object(
  { id: identityId, hostname, tunnel_ip, addresses, labels, security_groups, isolated, trial, revision: Revision },
  { ...strict, $id: 'DeviceIdentity', title: 'DeviceIdentity' },
);
export type DeviceIdentity = Wire<typeof DeviceIdentity>;

const settable = {
  organization_id: Type.Optional(givenId('May be given if it names the organization of the path.')),
  user_id: Type.Optional(givenId("The device's user: oneself, or a member when an owner registers for it.")),
  ...Type.Partial(Type.Object(described)).properties,
  addresses: Type.Optional(
    Type.Array(ShortText('A single IPv4 or IPv6 address.'), {
      maxItems: limits.deviceAddresses,
      description:
        'Its own addresses besides `tunnel_ip`. While the device has labels or is isolated, only an owner changes either.',
      examples: [['10.0.0.5', 'fd00::5']],
    }),
  ),
  labels: Type.Optional(GivenLabels('What the device is. Only an owner sets or changes them.')),
  security_groups: Type.Optional(
    Type.Array(givenId('A security group.'), {
      maxItems: limits.deviceGroups,
      uniqueItems: true,
      description: "Groups of the device's user or of the organization, never the default group.",
    }),
  ),
};

export const AddDevice = Type.Object(
  { public_key: Name('Tunnel public key; unique within the organization.'), ...settable },
  { ...strict, $id: 'AddDevice', title: 'AddDevice' },
);
export type AddDevice = Wire<typeof AddDevice>;

export const UpdateDevice = Type.Object(
  { public_key: Type.Optional(Name('Tunnel public key; unique within the organization.')), ...settable },
  { ...strict, $id: 'UpdateDevice', title: 'UpdateDevice' },
);
export type UpdateDevice = Wire<typeof UpdateDevice>;

/** The answer to a device's registration: the record, and its token this one time. */
export const RegisteredDevice = Type.Object(
  { ...Device.properties, device_token: Type.String({ description: 'The server shows it only once.' }) },
  { ...strict, $id: 'RegisteredDevice', title: 'RegisteredDevice' },
);
export type RegisteredDevice = Wire<typeof RegisteredDevice>;

/** The answer to an isolation: the record, the addresses that the others refuse, and warnings if there are any. */
export const IsolatedDevice = Type.Object(
  { ...Device.properties, refused_addresses: RefusedAddresses, warnings: Type.Optional(Type.Array(IsolationWarning)) },
  { ...strict, $id: 'IsolatedDevice', title: 'IsolatedDevice' },
);

/** Why a device has a group: its list names it, it applies by label, it is the default group, or it is a guardrail. */
const appliedBy = ['list', 'label', 'default', 'guardrail'] as const;

export const AppliedGroup = Type.Object(
  { group_id: id<GroupId>('The group.'), by: Type.Enum([...appliedBy], { description: 'Why the device has it.' }) },
  { ...strict, $id: 'AppliedGroup', title: 'AppliedGroup' },
);
export type AppliedGroup = Wire<typeof AppliedGroup>;

/** How many addresses an agent names at most: it keeps no more ways open. */
const mostAddresses = 128;
const addressList = (description: string) =>
  Type.Array(ShortText('A single address.'), { maxItems: mostAddresses, description });

/** What an agent says about itself. It takes no revision and makes no event. */
export const DeviceReport = Type.Object(
  {
    state: Type.Enum(['starting', 'applied', 'failed', 'reverted'], {
      description: 'Whether the policy is in force; `reverted`: the one before was put back.',
    }),
    revision: Type.Optional(
      Type.Integer({ ...Revision, description: 'Newest revision that the rules in force reflect.' }),
    ),
    observed_revision: Type.Optional(
      Type.Integer({
        ...Revision,
        description: 'Of a device that failed: the newest revision that it has dealt with, in vain.',
      }),
    ),
    policy_digest: Type.Optional(
      Digest('SHA-256 over the canonical policy as read back from the kernel, in 64 hexadecimal digits.'),
    ),
    policy_digest_form: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: largestRevision,
        description:
          'How `policy_digest` was made; 1 when absent. The server compares only digests that were made in its own way.',
      }),
    ),
    code: Type.Optional(ShortText('What went wrong last, for a program, such as `not_understood`.')),
    detail: Type.Optional(Text('What went wrong last, for a person.')),
    agent_version: Type.Optional(ShortText('Version of the agent.')),
    interface: Type.Optional(ShortText('The driver interface.')),
    drift_repairs: Type.Optional(
      Type.Integer({ minimum: 0, maximum: largestRevision, description: 'How often foreign changes were undone.' }),
    ),
    packets: Type.Optional(PacketReport),
    group_packets: Type.Optional(
      Type.Array(GroupPackets, {
        maxItems: mostCountedGroups,
        description:
          "Packets that the rules of each group matched, which are the first of their connections. Read by owners, and by the device's user.",
      }),
    ),
    server_access: Type.Optional(
      Type.Object(
        {
          addresses: addressList("The server's addresses, as the agent uses them."),
          port: Type.Integer({ minimum: 0, maximum: 65_535, description: "The server's port." }),
          resolvers: addressList('The DNS resolvers of the device; empty if the server URL contains an address.'),
        },
        {
          ...strict,
          description: 'The traffic between the agent and its server, which stays open regardless of the groups.',
        },
      ),
    ),
    next_token_digest: Type.Optional(
      Digest(
        'After an answer with `renew_token`: SHA-256 of the secret that the agent has made, `rf_device_` and 43 characters of base64url. Its first use ends the present one. Not kept with the status.',
      ),
    ),
    containers: Type.Optional(
      Type.Enum(['guard', 'ignore'], {
        description: 'Whether connections that the device redirects or translates for others are judged too.',
      }),
    ),
  },
  { ...strict, $id: 'DeviceReport', title: 'DeviceReport' },
);
export type DeviceReport = Wire<typeof DeviceReport>;

/** The answer to a report. */
export const ReportedStatus = Type.Object(
  {
    device_id: id<DeviceId>('The device.'),
    reported_at: Timestamp,
    status: DeviceReport,
    settings: AgentSettings,
    renew_token: Type.Optional(
      Type.Boolean({
        description: 'The token is to have another secret: see `next_token_digest`. Absent where it stays.',
      }),
    ),
  },
  { ...strict, $id: 'ReportedStatus', title: 'ReportedStatus' },
);
export type ReportedStatus = Wire<typeof ReportedStatus>;

/** The status of a device: what the server knows, and what its agent last reported. */
export const DeviceStatus = Type.Object(
  {
    device_id: id<DeviceId>('The device.'),
    hostname: ShortText('Name of the machine; may be empty.'),
    in_force: InForceWord,
    code: Type.Optional(
      ShortText('Why not, for a program: `digest_differs`, `digest_form`, `no_digest`, or what the agent reported.'),
    ),
    detail: Type.Optional(Text('Why not, for a person.')),
    online: Type.Boolean({
      description:
        'Whether it holds a stream right now, or did within the last 20 seconds, and has shown a sign of life recently.',
    }),
    last_seen_at: Type.Optional(Timestamp),
    reported_at: Type.Optional(Timestamp),
    status: Type.Optional(DeviceReport),
  },
  { ...strict, $id: 'DeviceStatus', title: 'DeviceStatus' },
);
export type DeviceStatus = Wire<typeof DeviceStatus>;
