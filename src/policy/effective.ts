/** Owns the effective policy of a device: which groups apply to it (reference 1.1). */
import type { GroupId } from './ids.ts';
import type { PolicyGroup } from './rule.ts';

/**
 * The groups in force on a device. Their rules are read as one merged set: traffic is admitted that any rule of any
 * group admits, and outbound is closed as soon as any group holds an outbound rule (reference 1.1 phase III, 1.2 (9)).
 */
export interface EffectivePolicy {
  readonly source: 'default' | 'list';
  readonly groups: readonly PolicyGroup[];
}

/** Groups that a device names and nobody knows: the policy is not known, which is not the same as an empty one. */
export interface MissingGroups {
  readonly missing: readonly GroupId[] | 'default';
}

export interface EffectiveInput {
  /** The device's own list; empty means that the default group applies. */
  readonly list: readonly GroupId[];
  readonly find: (id: GroupId) => PolicyGroup | undefined;
  readonly defaultGroup: PolicyGroup | undefined;
}

/** The policy of a device, or what is missing to know it. An enforcer keeps its old rules while something is missing. */
export function effectivePolicy({ list, find, defaultGroup }: EffectiveInput): EffectivePolicy | MissingGroups {
  if (list.length === 0) {
    return defaultGroup === undefined ? { missing: 'default' } : { source: 'default', groups: [defaultGroup] };
  }
  const groups: PolicyGroup[] = [];
  const missing: GroupId[] = [];
  for (const id of new Set(list)) {
    const group = find(id);
    if (group === undefined) missing.push(id);
    else groups.push(group);
  }
  return missing.length > 0 ? { missing } : { source: 'list', groups };
}
