/**
 * Owns the report on a device whose agent does not run: what is saved for its next start, and what the kernel holds.
 */
import { systemClock } from '../../client/clock.ts';
import { Enforcer } from '../kernel/enforcer.ts';
import { RealNft } from '../kernel/real-nft.ts';
import { StateFolder } from '../state/state-folder.ts';

export interface InactiveAgent {
  readonly running: false;
  readonly state: string;
  /** What the next start puts in force before it asks anybody; absent where nothing is saved. */
  readonly kept?: { readonly revision: number; readonly interface: string; readonly groups: readonly string[] };
  /** Why what is saved cannot be used. */
  readonly damaged?: string;
  /** Whether rules stand in the kernel all the same, and for which interface. */
  readonly kernel: 'enforced' | 'absent' | 'unreadable';
  readonly interface?: string;
}

export async function readInactiveAgent(state: string): Promise<InactiveAgent> {
  const [read, kernel] = await Promise.all([
    new StateFolder({ folder: state }).readPolicy('policy'),
    readKernel(state),
  ]);
  return {
    running: false,
    state,
    ...(read.kind === 'found' && {
      kept: {
        revision: read.record.revision,
        interface: read.record.interface,
        groups: read.record.policy.groups.map(({ name }) => name),
      },
    }),
    ...(read.kind === 'damaged' && { damaged: read.why }),
    ...kernel,
  };
}

async function readKernel(state: string): Promise<Pick<InactiveAgent, 'kernel' | 'interface'>> {
  const nft = new RealNft({ clock: systemClock, scratch: state });
  try {
    const found = await new Enforcer({ nft, random: Math.random }).read();
    if (found === undefined) return { kernel: 'absent' };
    const name = found.enforced?.interface;
    return { kernel: 'enforced', ...(name !== undefined && { interface: name }) };
  } catch {
    return { kernel: 'unreadable' };
  } finally {
    await nft.close();
  }
}
