/** Owns which policies were in force in a stretch of time: recorded traffic is judged by them. */
import { groupsIn, type EffectivePolicy } from '../../policy/effective.ts';
import type { GroupId } from '../../policy/ids.ts';
import type { PoliciesInForce } from '../kernel/flow-recorder.ts';

/** Policies that are held: that of a busy fleet changes with every device that comes. */
const mostHeld = 16;

export class PolicyTrail implements PoliciesInForce {
  known: readonly EffectivePolicy[] = [];
  areAll = true;
  groups: readonly GroupId[] | undefined;
  #newest: EffectivePolicy | 'none' | undefined = 'none';

  /** This came into force, or still is. Undefined: rules whose policy is not known. */
  add(policy: EffectivePolicy | undefined): void {
    if (policy === this.#newest) return;
    const groups = policy && new Set(groupsIn(policy).map(({ id }) => id));
    const isFirst = this.#newest === 'none';
    this.groups = groups && (isFirst ? [...groups] : this.groups?.filter((id) => groups.has(id)));
    this.#newest = policy;
    if (policy === undefined) return;
    this.areAll &&= this.known.length < mostHeld;
    this.known = [policy, ...this.known].slice(0, mostHeld);
  }
}
