/** Owns the wire form of the history: states of groups, and of the fields that decide the policy of devices (reference 4.8). */
import { Type, type TSchema } from 'typebox';
import type { UserId } from '../../policy/ids.ts';
import { Device } from '../device.ts';
import { SecurityGroup } from '../group.ts';
import { largestRevision } from '../limits.ts';
import { id, Revision, strict, Timestamp, type Wire } from '../scalar.ts';

const {
  id: device_id,
  user_id,
  organization_id,
  hostname,
  tunnel_ip,
  addresses,
  labels,
  isolated,
  security_groups,
  revision,
} = Device.properties;

/** A device's record without what changes with where it is reached. */
export const DevicePolicy = Type.Object(
  {
    id: device_id,
    user_id,
    organization_id,
    hostname,
    tunnel_ip,
    addresses,
    labels,
    security_groups,
    isolated,
    revision,
  },
  { ...strict, $id: 'DevicePolicy', title: 'DevicePolicy' },
);
export type DevicePolicy = Wire<typeof DevicePolicy>;

const state = <Schema extends TSchema>(record: Schema) => ({
  revision: Revision,
  at: Timestamp,
  type: Type.Enum(['change', 'delete'], { description: 'Of a deletion, `record` is the record as last known.' }),
  user_id: Type.Optional(
    id<UserId>('The user who made the change; absent for states from before the history started.'),
  ),
  username: Type.Optional(Type.String()),
  by_server: Type.Optional(
    Type.Unsafe<true>(
      Type.Boolean({ const: true, description: 'The server made it, because a time was over: no user did.' }),
    ),
  ),
  record,
});

export const GroupState = Type.Object(state(SecurityGroup), { ...strict, $id: 'GroupState', title: 'GroupState' });
export type GroupState = Wire<typeof GroupState>;

export const DevicePolicyState = Type.Object(state(DevicePolicy), {
  ...strict,
  $id: 'DevicePolicyState',
  title: 'DevicePolicyState',
});
export type DevicePolicyState = Wire<typeof DevicePolicyState>;

export const RestoreSecurityGroup = Type.Object(
  {
    revision: Type.Integer({
      minimum: 1,
      maximum: largestRevision,
      description: 'The group becomes what it was at this revision of the organization.',
    }),
  },
  { ...strict, $id: 'RestoreSecurityGroup', title: 'RestoreSecurityGroup' },
);
export type RestoreSecurityGroup = Wire<typeof RestoreSecurityGroup>;
