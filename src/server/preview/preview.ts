/** Owns the preview of changes: one snapshot before, one after, and everything that differs between them. */
import type { SimulatedTest, SimulationWarning } from '../../api/change/simulation.ts';
import type { OrganizationId } from '../../policy/ids.ts';
import type { PolicySnapshot } from '../../policy/snapshot/snapshot.ts';
import type { Phase } from '../store/contract/phase.ts';
import { plannedSnapshot, type PlannedChange } from './planned-change.ts';
import { affectedDevices, type AffectedDevice } from './simulation.ts';
import { Snapshots, type SnapshotsOptions } from './snapshots.ts';
import { warningsOf } from './warnings.ts';

export interface PreviewOptions extends SnapshotsOptions {
  readonly phase: Phase;
}

export interface SimulatedChange {
  readonly revision: number;
  readonly affected: readonly AffectedDevice[];
  readonly warnings: readonly SimulationWarning[];
  readonly tests: readonly SimulatedTest[];
}

export class Preview {
  readonly snapshots: Snapshots;
  readonly phase: Phase;
  readonly #o: PreviewOptions;

  constructor(options: PreviewOptions) {
    this.#o = options;
    this.phase = options.phase;
    this.snapshots = new Snapshots(options);
  }

  read(org: OrganizationId): Promise<PolicySnapshot> {
    return this.snapshots.read(org);
  }

  /** What the change would do to the organization as `before` shows it. */
  async simulate(before: PolicySnapshot, change: PlannedChange): Promise<SimulatedChange> {
    const after = plannedSnapshot(before, change);
    const affected = await affectedDevices(before, after, this.#o.slices);
    return { revision: before.revision, affected, warnings: warningsOf({ before, after }, change), tests: [] };
  }
}
