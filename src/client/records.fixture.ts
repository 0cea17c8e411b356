/** Owns the sample records that the client's tests share. */
import type { Device } from '../api/device.ts';
import type { SecurityGroup } from '../api/group.ts';
import { parseDeviceId, parseGroupId, parseOrganizationId, parseUserId } from '../policy/ids.ts';

const uuid = (lead: string, number: number): string =>
  `${lead}0000000-0000-4000-8000-${String(number).padStart(12, '0')}`;

export const organization = parseOrganizationId(uuid('a', 1));
export const deviceId = (number: number) => parseDeviceId(uuid('d', number));
export const groupId = (number: number) => parseGroupId(uuid('9', number));

const times = { created_at: '2024-01-01T00:00:00.000Z', updated_at: '2024-01-01T00:00:00.000Z' };

export const device = (number: number, revision: number, fields: Partial<Device> = {}): Device => ({
  id: deviceId(number),
  user_id: parseUserId(uuid('b', 1)),
  organization_id: organization,
  public_key: `key-${number}`,
  local_ip: '',
  tunnel_ip: '',
  child_prefix: null,
  relay: false,
  discovery: false,
  reflexive_ip4: '',
  endpoint_local_address_ip4: '',
  symmetric_nat: false,
  hostname: `host-${number}`,
  revision,
  ...times,
  ...fields,
});

export const group = (number: number, revision: number, fields: Partial<SecurityGroup> = {}): SecurityGroup => ({
  id: groupId(number),
  group_name: `group-${number}`,
  group_description: '',
  org_id: organization,
  revision,
  ...times,
  ...fields,
});
