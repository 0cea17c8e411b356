/** Owns devices whose isolation has content that this version does not know: they are in the model, and whoever asks for their isolation fails. */
import { deviceIdentity, type DeviceIdentity, type IdentityRecord } from '../policy/fleet/identity.ts';
import { NotUnderstood } from '../policy/fleet/not-understood.ts';
import type { Isolation } from '../policy/isolation/isolation-record.ts';

/** Reads a device as `deviceIdentity` does; what is not understood of its isolation fails only when the isolation is asked for. */
export function readIdentity(record: IdentityRecord): DeviceIdentity {
  try {
    return deviceIdentity(record);
  } catch (error) {
    if (!(error instanceof NotUnderstood)) throw error;
    const { isolated: _isolated, ...rest } = record;
    return {
      ...deviceIdentity(rest),
      get isolated(): never {
        throw error;
      },
    };
  }
}

/** The device's isolation, for who goes on where it is not understood. */
export function isolationOf(
  device: { readonly identity: DeviceIdentity } | undefined,
): Isolation | 'unclear' | undefined {
  try {
    return device?.identity.isolated;
  } catch (error) {
    if (error instanceof NotUnderstood) return 'unclear';
    throw error;
  }
}
