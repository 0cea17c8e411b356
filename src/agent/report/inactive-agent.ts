/** Owns what can be told about a device whose agent does not run: what is kept for its next start, and what the kernel holds. */
import { systemClock } from '../../client/clock.ts';
import { Enforcer } from '../kernel/enforcer.ts';
import { RealNft } from '../kernel/real-nft.ts';
import { StateFolder } from '../state/state-folder.ts';

export interface Stopped {
  readonly running: false;
  readonly state: string;
  /** What the next start puts in force before it asks anybody; absent where nothing is kept. */
  readonly kept?: { readonly revision: number; readonly interface: string; readonly groups: readonly string[] };
  /** Why what is kept cannot be used. */
  readonly damaged?: string;
  /** Whether rules stand in the kernel all the same, and for which interface. */
  readonly kernel: 'enforced' | 'absent' | 'unreadable';
  readonly interface?: string;
}

export async function tellStopped(state: string): Promise<Stopped> {
  const [read, kernel] = await Promise.all([new StateFolder({ folder: state }).read('policy'), lookAtKernel(state)]);
  return {
    running: false,
    state,
    ...(read.kind === 'kept' && {
      kept: {
        revision: read.kept.revision,
        interface: read.kept.interface,
        groups: read.kept.policy.groups.map(({ name }) => name),
      },
    }),
    ...(read.kind === 'bad' && { damaged: read.why }),
    ...kernel,
  };
}

async function lookAtKernel(state: string): Promise<Pick<Stopped, 'kernel' | 'interface'>> {
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
