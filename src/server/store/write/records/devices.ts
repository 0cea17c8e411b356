/** Owns the writing of one device: as it is decided, with its token and its audit entry. */
import * as decide from '../../../../organization/decide/device.ts';
import { parseTokenId } from '../../../../policy/ids.ts';
import type { NewDevice } from '../../data/devices.ts';
import type { DeviceRecord, Stored } from '../../data/records.ts';
import { statement } from '../../postgres/sql.ts';
import { decided, type Deciding } from './deciding.ts';

/** Values: id, digest in hexadecimal, user, organization, device, name, now. */
const insertToken = statement<never>(
  'insert_token_of_new_device',
  `INSERT INTO tokens (id, digest, user_id, org_id, device_id, name, scope, created_at)
   VALUES ($1, decode($2, 'hex'), $3, $4, $5, $6, 'full', $7)`,
);

export interface DeviceCreation extends decide.DeviceCreation {
  readonly device: Pick<NewDevice, 'user_id' | 'fields' | 'token'>;
}

export function createDevice(deciding: Deciding, creation: DeviceCreation): Stored<DeviceRecord> {
  const { context, org, records, at } = deciding;
  const { user_id, token } = creation.device;
  const decision = decide.createDevice(deciding, creation);
  if (token !== undefined) {
    const digest = Buffer.from(token.digest).toString('hex');
    records.also(insertToken, [parseTokenId(context.newId()), digest, user_id, org, creation.id, token.name, at]);
  }
  return decided(deciding, decision);
}

export function updateDevice(deciding: Deciding, update: decide.DeviceUpdate): Stored<DeviceRecord> {
  const decision = decide.updateDevice(deciding, update);
  // What a device says of itself is no person's change, and comes often.
  const isTold = deciding.by.audit?.credential.kind !== 'device_token' || !decide.isEndpointOnly(update.patch);
  return decided(deciding, decision, ({ texts, ...note }) => ({ ...note, ...(isTold && texts && { texts }) }));
}
