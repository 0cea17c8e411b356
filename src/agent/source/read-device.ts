/** Owns the reading of a device's record, by identity or in whole: either all of it is understood, or none of it is used. */
import type { Device, DeviceIdentity as IdentityRecord } from '../../api/device.ts';
import { deviceIdentity, type DeviceIdentity } from '../../policy/fleet/identity.ts';
import { NotUnderstood } from '../../policy/fleet/not-understood.ts';
import { Problems, show } from '../../policy/problem.ts';
import type { ListBefore, Trial } from '../../policy/rule.ts';
import { readListTrial } from '../../policy/trial/read-trial.ts';

/**
 * Every field of a device's record. A server shows the view by identity, and all of that decides policy: a field that
 * is not among these may change what the others mean. A server of an earlier version, which knows no view, shows the
 * whole record.
 */
const recordFields: Readonly<Record<keyof Device | keyof IdentityRecord, true>> = {
  id: true,
  user_id: true,
  organization_id: true,
  public_key: true,
  local_ip: true,
  tunnel_ip: true,
  child_prefix: true,
  relay: true,
  discovery: true,
  reflexive_ip4: true,
  endpoint_local_address_ip4: true,
  symmetric_nat: true,
  hostname: true,
  addresses: true,
  labels: true,
  security_groups: true,
  isolated: true,
  trial: true,
  revision: true,
  created_at: true,
  updated_at: true,
};

const unknownField = (record: IdentityRecord): string | undefined =>
  Object.keys(record).find((name) => !Object.hasOwn(recordFields, name));

/** Whether the device concerns every other one: it is isolated, or its record has a field that this program does not know. */
export const concernsAll = (record: IdentityRecord): boolean =>
  record.isolated !== undefined || unknownField(record) !== undefined;

/** What is known of another device: who it is, and nothing else of its record. A record with an unknown field stays whole. */
export function identityOf(record: IdentityRecord): IdentityRecord {
  if (unknownField(record) !== undefined) return record;
  const { id, hostname, tunnel_ip, addresses, labels, isolated, revision } = record;
  const identity: { -readonly [F in keyof IdentityRecord]: IdentityRecord[F] } = { id, hostname, tunnel_ip, revision };
  if (addresses !== undefined) identity.addresses = addresses;
  if (labels !== undefined) identity.labels = labels;
  if (isolated !== undefined) identity.isolated = isolated;
  return identity;
}

/** What the policy core knows of the device. */
export function understoodDevice(record: IdentityRecord): DeviceIdentity | NotUnderstood {
  const unknown = unknownField(record);
  if (unknown !== undefined)
    return new NotUnderstood(`the device ${record.id}`, `the field ${show(unknown)} is unknown`);
  try {
    return deviceIdentity(record);
  } catch (error) {
    if (error instanceof NotUnderstood) return error;
    throw error;
  }
}

/** The trial of the device's list. Throws where it is not understood: it may mean another list. */
export function readDeviceTrial(device: IdentityRecord): Trial<ListBefore> | undefined {
  const problems = new Problems();
  const trial = readListTrial(device.trial, problems);
  const [problem] = problems.problems;
  if (problem !== undefined)
    throw new NotUnderstood(`the device ${device.id}`, `${problem.pointer}: ${problem.detail}`);
  return trial;
}
