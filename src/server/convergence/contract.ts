/** Owns the interface for questions about enforcement: whether the policy is in force on each device, and when it is on all of them. */
import type { InForce } from '../../api/enforcement/in-force.ts';
import type { GroupRules } from '../../organization/group-rules.ts';
import type { DeviceIdentity } from '../../policy/fleet/identity.ts';
import type { PolicyIsolation } from '../../policy/isolation/policy-isolation.ts';
import type { DeviceId, GroupId, OrganizationId } from '../../policy/ids.ts';

/** Whether a revision is in force on one device. */
export interface EnforcementStatus {
  readonly device_id: DeviceId;
  readonly hostname: string;
  readonly in_force: InForce;
  readonly code?: string;
  readonly detail?: string;
  /** The revision that its rules reflect, by its last report. */
  readonly revision?: number;
  /** The revision that it has tried to apply, if that failed. */
  readonly observed_revision?: number;
  /** Holds a stream, or did within the last 20 seconds. */
  readonly online: boolean;
  readonly last_seen_at?: string;
  readonly reported_at?: string;
  /** As it was reported. */
  readonly status?: unknown;
}

export interface EnforcementStatuses {
  readonly revision: number;
  /** Every device of the organization, by id. */
  readonly devices: readonly EnforcementStatus[];
}

/** How far a revision is in force, and which devices lack it. */
export interface Converged {
  readonly revision: number;
  /** The number of devices that were asked about. */
  readonly devices: number;
  /** All devices that lack it, by id. */
  readonly pending: readonly EnforcementStatus[];
}

export interface ConvergenceQuery {
  /** The head unless given. */
  readonly revision?: number | undefined;
  /** Only devices whose policy changed after this revision. */
  readonly since?: number | undefined;
  /** Milliseconds to wait while the revision is not in force on every device. */
  readonly waitMs?: number | undefined;
  /** Aborts when the caller has disconnected. The wait ends then. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * It promises that no device is said to have a revision in force which has not said so itself, by the revision that its rules reflect and
 * the digest of the rules that its kernel holds; and that an answer is never older than its question.
 */
export interface Convergence {
  /** The enforcement status of every device at the head. */
  read(org: OrganizationId): Promise<EnforcementStatuses>;
  /**
   * Undefined when the revision is above the head. Fails with `unavailable` when the server stops or the database
   * cannot be reached, and with the signal's reason when the caller has disconnected.
   */
  converge(org: OrganizationId, query?: ConvergenceQuery): Promise<Converged | undefined>;
  /** How many devices are in each state, at the head. The state of an organization stays in memory only while requests use it. */
  count(org: OrganizationId): Promise<Readonly<Record<InForce, number>>>;
  /** The devices and their policy at the head; good until something else is awaited. */
  survey(org: OrganizationId): Promise<Survey>;
}

/** A group of one device, with what a reader of its record needs. */
export interface GroupInEffect {
  readonly id: GroupId;
  /** Of the state of it that counts for the device. */
  readonly rules: Pick<GroupRules, 'hash'>;
}

export interface SurveyedDevice {
  readonly id: DeviceId;
  readonly hostname: string;
  readonly identity: DeviceIdentity;
}

export interface Survey {
  readonly revision: number;
  readonly devices: ReadonlyMap<DeviceId, SurveyedDevice>;
  /** Guardrails last; undefined where a group of its list is not known. */
  groupsOn(id: DeviceId): readonly GroupInEffect[] | undefined;
  /** The isolation that concerns this device; undefined when there is none. */
  isolationOn(id: DeviceId): PolicyIsolation | undefined;
  /** The enforcement status of these devices at the head. */
  enforcementStatuses(ids: readonly DeviceId[]): Promise<readonly EnforcementStatus[]>;
}
