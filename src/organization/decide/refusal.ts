/** Owns what a decision refuses: the data of each problem, which the server puts into words. */
import type { DeviceId, EnrollmentKeyId, GroupId } from '../../policy/ids.ts';

export type NamedDevices = readonly { readonly id: DeviceId; readonly hostname: string }[];

/** One bad entry of a device's `security_groups` list. */
export interface GroupListProblem {
  /** Position in the list; -1 when the list as a whole is at fault (`too_many`, `too_many_ranges`). */
  readonly index: number;
  /**
   * `unknown_group`: no group of the device's user or of the organization has this id (the code is the same for absent
   * groups and for groups of other users and organizations); `default_group`: the default is implied by an empty list;
   * `duplicate`: named before in the same list; `too_many`: more entries than the phase allows; `too_many_ranges`: the
   * groups name more address ranges together than a device may have; `guardrail`: it applies by label and never by
   * list.
   */
  readonly code: 'unknown_group' | 'default_group' | 'duplicate' | 'guardrail' | 'too_many' | 'too_many_ranges';
  readonly group?: GroupId;
  /** With `too_many`: how many entries the phase allows; with `too_many_ranges`: how many ranges. */
  readonly allowed?: number;
  /** With `too_many_ranges`: how many there are. */
  readonly ranges?: number;
}

/** The server's table of problems has a row for each, with its meaning. */
export type Refusal =
  | { readonly code: 'not_found'; readonly what: 'group' | 'device' | 'member' | 'trial' }
  | {
      readonly code:
        | 'not_a_member'
        | 'credential_ended'
        | 'forbidden'
        | 'phase_forbids'
        | 'public_key_taken'
        | 'labels_by_owner'
        | 'address_by_owner'
        | 'isolated_by_owner'
        | 'not_wider';
    }
  | { readonly code: 'already_member' | 'not_an_owner' | 'last_owner' }
  | { readonly code: 'precondition_failed'; readonly revision: number }
  | {
      readonly code: 'limit_reached';
      readonly what: 'groups' | 'devices' | 'members' | 'enrollment_keys';
      readonly limit: number;
    }
  | { readonly code: 'too_many_ranges'; readonly limit: number }
  | { readonly code: 'too_many_device_ranges'; readonly limit: number; readonly devices: NamedDevices }
  | { readonly code: 'trial_pending'; readonly trial: string }
  | { readonly code: 'trial_over'; readonly state: 'confirmed' | 'reverted' | 'expired' }
  | { readonly code: 'not_on_trial'; readonly indexes: readonly number[] }
  | { readonly code: 'newer_record'; readonly what: 'device' | 'group' }
  | { readonly code: 'group_list_invalid'; readonly problems: readonly GroupListProblem[] }
  | { readonly code: 'device_unknown'; readonly devices: readonly DeviceId[] }
  | { readonly code: 'would_open'; readonly devices: NamedDevices; readonly more: number }
  | {
      readonly code: 'application_refused';
      readonly why: 'phase' | 'user_group' | 'default_group' | 'default_mode';
      readonly fields: readonly ('applies_to' | 'guardrail' | 'mode')[];
    }
  | {
      readonly code: 'group_in_use';
      readonly devices: NamedDevices;
      readonly by: { readonly list: boolean; readonly label: boolean };
      readonly enrollment_keys: readonly { readonly id: EnrollmentKeyId; readonly name: string }[];
    };

/** Thrown by who refuses. `problem` narrows by `code`; `cause` is for the log, never for the wire. */
export class Refused<Problem extends { readonly code: string }> extends Error {
  readonly problem: Problem;

  constructor(problem: Problem, options: { readonly cause?: unknown; readonly message?: string } = {}) {
    super(options.message ?? problem.code, 'cause' in options ? { cause: options.cause } : {});
    this.name = 'StoreError';
    this.problem = problem;
  }

  get code(): Problem['code'] {
    return this.problem.code;
  }
}

export const refuse = (problem: Refusal): never => {
  throw new Refused(problem);
};
