/**
 * Owns the rules that nothing used, over all groups of the organization. A rule counts only where it was in its group, and all of its traffic was
 * observed, for the whole window.
 */
import { limits } from '../../api/limits.ts';
import type { UnusedRule, UnusedRules } from '../../api/usage/rule-usage.ts';
import { rulesOf } from '../../policy/decide.ts';
import { groupsIn } from '../../policy/effective.ts';
import type { DeviceId, GroupId } from '../../policy/ids.ts';
import { ruleIdOf } from '../../policy/rule-identity/rule-id.ts';
import { ruleIdentity } from '../../policy/rule-identity/rule-identity.ts';
import type { Direction, PolicyGroup, StoredRule } from '../../policy/rule.ts';
import { textsThatFit } from '../explain/texts-that-fit.ts';
import { policiesWith } from './group-policies.ts';
import { ObservedRules } from './observed-rules.ts';
import { observedAll, observedRefused } from './observed-time.ts';
import { rulesSince, type UsageOptions, type UsageRequest } from './usage.ts';

const directions = ['inbound', 'outbound'] as const;
/** Rules of an answer; there may be more. */
const mostRules = 1_000;

/** The organization's own groups that some device has, without those on trial: their rules cannot be changed now. */
function groupsToJudge(
  { snapshot }: Pick<UsageRequest, 'snapshot'>,
  devices: ReadonlyMap<GroupId, readonly DeviceId[]>,
): readonly PolicyGroup[] {
  return [...snapshot.groups.values()].flatMap(({ group, user_id }) =>
    user_id === undefined && group.trial === undefined && devices.has(group.id) ? [group] : [],
  );
}

export async function unusedRules(asked: Omit<UsageRequest, 'group'>, options: UsageOptions): Promise<UnusedRules> {
  const { org, snapshot, since, until } = asked;
  const { slices } = options;
  const policies = await policiesWith(snapshot, undefined, slices);
  const devicesOf = new Map<GroupId, DeviceId[]>();
  await slices.each(policies, ([id, policy]) => {
    for (const group of groupsIn(policy)) {
      const having = devicesOf.get(group.id);
      if (having === undefined) devicesOf.set(group.id, [id]);
      else having.push(id);
    }
  });
  const known = await ObservedRules.read({ org, devices: [...policies.keys()], since }, options);
  const found: UnusedRule[] = [];
  let count = 0;
  for (const group of groupsToJudge(asked, devicesOf)) {
    const places: { readonly direction: Direction; readonly rule: StoredRule }[] = [];
    for (const direction of directions)
      await slices.each(rulesOf(group, direction), (rule) => {
        if (known.countOf(group.id, ruleIdOf(direction, rule)) === undefined) places.push({ direction, rule });
      });
    const devices = devicesOf.get(group.id) ?? [];
    if (places.length === 0 || (await known.notRecorded(devices)) > 0) continue;
    const observed = group.guardrail === 'forbid' ? observedRefused : observedAll;
    if (!(await known.shareOf(group.id, devices, { from: since, until, observed })).isFull) continue;
    const sinceOf = await rulesSince(options, { ...asked, group: group.id });
    for (const { direction, rule } of places) {
      if (sinceOf(direction, ruleIdentity(rule)) > since) continue;
      count += 1;
      const { members: _members, expired: _expired, ...written } = rule;
      if (found.length < mostRules)
        found.push({ group_id: group.id, group_name: group.name, direction, rule: written });
    }
  }
  // Each may name thousands of addresses.
  const { length } = await slices.run(textsThatFit(found, limits.answer / 4));
  return {
    since: new Date(since).toISOString(),
    until: new Date(until).toISOString(),
    count,
    rules: found.slice(0, length),
  };
}
