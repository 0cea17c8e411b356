/** Owns the interface of what ends by time in the records of all organizations: trials and isolations. */
import type { DeviceId, OrganizationId, TrialId } from '../../../../policy/ids.ts';

interface TimedEnd {
  readonly org: OrganizationId;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

export type Ending =
  | (TimedEnd & { readonly kind: 'trial'; readonly id: TrialId })
  | (TimedEnd & {
      readonly kind: 'isolation';
      readonly id: DeviceId;
      /** As it was found. */
      readonly revision: number;
      /** In whose name it is lifted: the owner who isolated it, or another one. */
      readonly owner: string;
    });

export interface Ends {
  /** What has ended or ends within so many milliseconds, the earliest first. */
  next(withinMs: number): Promise<readonly Ending[]>;
  /**
   * Reverts the trial, or removes the isolation from the record, each as a change of its own. Several servers may do it at once: of a trial
   * that another one has ended nothing happens, an isolation of a device that was changed meanwhile is `precondition_failed` or `not_found`.
   */
  end(ending: Ending): Promise<void>;
}
