/** Owns the check that an identity belongs to the machine that holds it: a copied disk must not speak for the original. */
import type { Log } from '../host/log.ts';
import type { Identity, IdentityFolder } from './identity.ts';

/** Thrown where the state directory was copied from another machine: one line for an operator. */
export class ForeignIdentity extends Error {
  readonly code = 'foreign_identity';
}

export interface MachineCheck {
  readonly folder: IdentityFolder;
  /** This machine; absent where it has no id, and then nothing can be compared. */
  readonly machine: string | undefined;
  /** The operator says that the identity moves to this machine. */
  readonly adopt: boolean;
}

const isForeign = (identity: Identity | undefined, machine: string | undefined): boolean =>
  identity?.machine !== undefined && machine !== undefined && identity.machine !== machine;

/** Throws `ForeignIdentity` where the identity was made on another machine, unless it is adopted. */
export function refuseForeignIdentity(identity: Identity | undefined, { folder, machine, adopt }: MachineCheck): void {
  if (adopt || identity === undefined || !isForeign(identity, machine)) return;
  throw new ForeignIdentity(
    `${folder.path('identity')} was created on another machine (device ${identity.device}): to enroll this machine, delete it; to continue as that device, start once with --adopt`,
  );
}

/** Writes down that the identity belongs to this machine, where that is not written yet. A disk that is full is no reason to stop. */
export async function claimIdentity({ folder, machine, adopt }: MachineCheck, log: Log): Promise<void> {
  const identity = await folder.identity().catch(() => undefined);
  if (identity === undefined || machine === undefined || identity.machine === machine) return;
  const foreign = isForeign(identity, machine);
  if (foreign && !adopt) return;
  try {
    await folder.save({ ...identity, machine });
    if (foreign)
      log('warn', 'this machine continues as a device that was enrolled on another machine', {
        device: identity.device,
      });
  } catch (error) {
    log('warn', `cannot save the machine id: ${error instanceof Error ? error.message : String(error)}`);
  }
}
