/** Owns the interface of fleet samples: packet counts and device states in steps of five minutes, kept for two weeks. */
import type { OrganizationId } from '../../../policy/ids.ts';
import type { Timestamp } from './records.ts';

export interface CountedPackets {
  readonly org: OrganizationId;
  readonly admitted: number;
  readonly refused: number;
}

export interface Sample {
  readonly at: Timestamp;
  readonly devices?: number;
  readonly in_force?: number;
  readonly admitted: number;
  readonly refused: number;
}

export interface SampleQuery {
  /** Milliseconds since the epoch. */
  readonly since: number;
  /** Seconds of one sample of the answer, a multiple of those that are kept: packets are summed, and of states the worst is shown. */
  readonly seconds: number;
}

/** Samples are a picture, not an account: what a process that dies had not written yet is lost. Organizations that are gone are passed over. */
export interface FleetSamples {
  /** Adds to the current sample. One write for any number of organizations. */
  add(counted: readonly CountedPackets[]): Promise<void>;
  /** Returns those of these organizations whose state is not yet in the current sample. Only one caller gets each of them. */
  claim(orgs: readonly OrganizationId[]): Promise<readonly OrganizationId[]>;
  /** Writes the state that was claimed. */
  record(org: OrganizationId, state: { readonly devices: number; readonly in_force: number }): Promise<void>;
  /** Oldest first. */
  read(org: OrganizationId, query: SampleQuery): Promise<readonly Sample[]>;
}
