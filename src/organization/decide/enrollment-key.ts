/** Owns who may make an enrollment key, how many there may be, and which keys still admit devices. */
import type { EnrollmentKeyId, GroupId } from '../../policy/ids.ts';
import type { Caller } from './caller.ts';
import type { HoldingKey } from './outcome.ts';
import type { Timestamp } from './records.ts';
import { refuse, type GroupListProblem } from './refusal.ts';

/** A key as far as it matters to decisions. */
export interface StandingKey {
  readonly id: EnrollmentKeyId;
  readonly name: string;
  readonly expires_at: Timestamp;
  readonly uses_left: number;
  readonly security_groups?: readonly GroupId[];
  readonly labels?: readonly string[];
}

/** Whether devices may still come by it. `at`: milliseconds since 1970. */
const admits = ({ uses_left, expires_at }: StandingKey, at: number): boolean =>
  uses_left > 0 && Date.parse(expires_at) > at;

/** Those that admit devices with this group. */
export const holdingKeys = (keys: readonly StandingKey[], group: string, at: number): readonly HoldingKey[] =>
  keys
    .filter((key) => admits(key, at))
    .flatMap(({ id, name, security_groups = [], labels = [] }) =>
      security_groups.some((one) => one === group) ? [{ id, name, security_groups, labels }] : [],
    );

/**
 * Refuses a new key. Gives the keys that make room for it: at the limit, those that can admit no more devices go first, because they are kept only for
 * reading. A key with labels sets them in its user's name, as an owner.
 */
export function holdNewKey(
  { problems, labels }: { readonly problems: readonly GroupListProblem[]; readonly labels: readonly string[] },
  { role }: Pick<Caller, 'role'>,
  keys: readonly StandingKey[],
  { at, limit }: { readonly at: number; readonly limit: number },
): { readonly spent: readonly EnrollmentKeyId[]; readonly asOwner: boolean } {
  if (problems.length > 0) refuse({ code: 'group_list_invalid', problems });
  const asOwner = labels.length > 0;
  if (asOwner && role !== 'owner') refuse({ code: 'labels_by_owner' });
  if (keys.length < limit) return { spent: [], asOwner };
  const spent = keys.filter((key) => !admits(key, at)).map(({ id }) => id);
  if (keys.length - spent.length >= limit) refuse({ code: 'limit_reached', what: 'enrollment_keys', limit });
  return { spent, asOwner };
}
