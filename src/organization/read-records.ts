/** Owns the step from API records of devices and groups to an organization. */
import { deviceIdentity, type IdentityRecord } from '../policy/fleet/identity.ts';
import { readGroupRecord } from '../policy/fleet/group-record.ts';
import { parseDeviceId, parseGroupId } from '../policy/ids.ts';
import { Problems } from '../policy/problem.ts';
import { readListTrial } from '../policy/trial/read-trial.ts';
import type { OrganizationChange, OrganizationDevice, OrganizationGroup } from './organization.ts';

/** A device's record, as far as an organization needs it. */
export interface DevicePolicyFields extends IdentityRecord {
  readonly hostname?: string;
  readonly security_groups?: readonly string[];
  readonly trial?: unknown;
}

function snapshotDevice(record: DevicePolicyFields): OrganizationDevice {
  const trial = readListTrial(record.trial, new Problems());
  return {
    id: parseDeviceId(record.id),
    hostname: record.hostname ?? '',
    list: (record.security_groups ?? []).map(parseGroupId),
    ...(trial && { trial }),
    identity: deviceIdentity(record),
  };
}

/** A group's record; what it says of its owner is read here, everything else by `readGroupRecord`. */
interface OwnedRecord {
  readonly is_default?: unknown;
  readonly user_id?: unknown;
}

/** Throws `NotUnderstood` where the record has content that this version does not know. */
function snapshotGroup(record: object): OrganizationGroup {
  const { is_default, user_id }: OwnedRecord = record;
  return {
    group: readGroupRecord(record),
    isDefault: is_default === true,
    ...(typeof user_id === 'string' && { user_id }),
  };
}

export const deviceChange = (record: DevicePolicyFields): OrganizationChange => {
  const device = snapshotDevice(record);
  return { kind: 'device', id: device.id, device };
};

export const groupChange = (record: object): OrganizationChange => {
  const group = snapshotGroup(record);
  return { kind: 'group', id: group.group.id, group };
};

/** What an entry of the log makes of an organization: the record as JSON text, or undefined where it was deleted. */
export function loggedChange(
  kind: 'device' | 'security-groups',
  id: string,
  json: string | undefined,
): OrganizationChange {
  if (kind === 'device') {
    if (json === undefined) return { kind: 'device', id: parseDeviceId(id), device: undefined };
    return deviceChange(JSON.parse(json) as DevicePolicyFields);
  }
  return json === undefined
    ? { kind: 'group', id: parseGroupId(id), group: undefined }
    : groupChange(JSON.parse(json) as object);
}
