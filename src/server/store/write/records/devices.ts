/** Owns the writing of one device: as it is decided, with its token and its audit entry. */
import * as decide from '../../../../organization/decide/device.ts';
import type { NewDevice } from '../../data/devices.ts';
import type { DeviceRecord, Stored } from '../../data/records.ts';
import { insertToken } from '../token.ts';
import { decided, type Deciding } from './deciding.ts';

export interface DeviceCreation extends decide.DeviceCreation {
  readonly device: Pick<NewDevice, 'user_id' | 'fields' | 'token'>;
}

export function createDevice(deciding: Deciding, creation: DeviceCreation): Stored<DeviceRecord> {
  const { context, org, records, at } = deciding;
  const { user_id, token } = creation.device;
  const decision = decide.createDevice(deciding, creation);
  if (token !== undefined) {
    const of = [user_id, org, creation.id];
    records.also(insertToken, [context.newId(), Buffer.from(token.digest), ...of, token.name, 'full', null, at]);
  }
  return decided(deciding, decision);
}

export function updateDevice(deciding: Deciding, update: decide.DeviceUpdate): Stored<DeviceRecord> {
  const decision = decide.updateDevice(deciding, update);
  // What a device says of itself is no person's change, and comes often.
  const isTold = deciding.by.audit?.credential.kind !== 'device_token' || !decide.isEndpointOnly(update.patch);
  return decided(deciding, decision, ({ texts, ...note }) => ({ ...note, ...(isTold && texts && { texts }) }));
}
