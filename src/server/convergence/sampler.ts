/**
 * Owns the samples that this process takes: it gathers the packet counts that devices report, writes them together, and
 * records the state of each fleet once per time step.
 */
import type { PacketReport } from '../../api/enforcement/overview.ts';
import { sampleSeconds } from '../../api/enforcement/overview.ts';
import type { OrganizationId } from '../../policy/ids.ts';
import type { FleetSamples } from '../store/log/fleet-samples.ts';
import type { DueWork } from '../scheduling/due-work.ts';
import type { Convergence } from './contract.ts';

export interface SamplerOptions {
  readonly samples: FleetSamples;
  readonly convergence: Pick<Convergence, 'count'>;
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  readonly onWarning: (message: string, cause: unknown) => void;
}

/** Samples are gathered for this long and then written: the cost does not grow with the number of reports. */
const flushMs = 10_000;

interface Packets {
  admitted: number;
  refused: number;
}

export class Sampler {
  readonly #o: SamplerOptions;
  readonly #packets = new Map<OrganizationId, Packets>();
  /** Organizations with a report in this time step, and whether their state was sampled. */
  readonly #heard = new Map<OrganizationId, boolean>();
  #step = Number.NaN;

  constructor(options: SamplerOptions) {
    this.#o = options;
  }

  /** A device of the organization reported, or somebody looks at it. */
  see(org: OrganizationId, packets?: PacketReport): void {
    if (!this.#heard.has(org)) this.#heard.set(org, false);
    if (packets === undefined) return;
    const sum = this.#packets.get(org) ?? { admitted: 0, refused: 0 };
    this.#packets.set(org, sum);
    sum.admitted = Math.min(sum.admitted + packets.admitted, Number.MAX_SAFE_INTEGER);
    sum.refused = Math.min(sum.refused + packets.refused, Number.MAX_SAFE_INTEGER);
  }

  /** Writes what is due. What could not be written is written the next time. */
  async flush(): Promise<void> {
    const { clock } = this.#o;
    const step = Math.floor(clock() / (sampleSeconds * 1_000));
    // A new time step begins: forget the organizations that were sampled in the last one.
    if (step !== this.#step && !Number.isNaN(this.#step)) {
      for (const [org, isAsked] of this.#heard) if (isAsked) this.#heard.delete(org);
    }
    this.#step = step;
    await this.#writePackets();
    await this.#takeStates();
  }

  async #writePackets(): Promise<void> {
    const counted = [...this.#packets].map(([org, sum]) => ({ org, ...sum }));
    this.#packets.clear();
    try {
      await this.#o.samples.add(counted);
    } catch (cause) {
      for (const { org, ...sum } of counted) this.see(org, sum);
      throw cause;
    }
  }

  async #takeStates(): Promise<void> {
    const { samples, convergence } = this.#o;
    const orgs = [...this.#heard].filter(([, isAsked]) => !isAsked).map(([org]) => org);
    const claimed = await samples.claim(orgs);
    for (const org of orgs) this.#heard.set(org, true);
    for (const org of claimed) {
      try {
        const { yes: in_force, ...others } = await convergence.count(org);
        const devices = Object.values(others).reduce((sum, count) => sum + count, in_force);
        await samples.record(org, { devices, in_force });
      } catch (cause) {
        // This concerns one organization only. The samples of the others continue.
        this.#o.onWarning('cannot save the state of a fleet', cause);
      }
    }
  }
}

/** Writes them every few seconds, and for the last time when the process stops. */
export const savingSamples = (sampler: Sampler): DueWork => ({
  task: 'save the samples of fleets',
  firstMs: flushMs,
  async run() {
    await sampler.flush();
    return flushMs;
  },
  settle: () => sampler.flush(),
});
