/**
 * Owns the rules that nothing used, over all groups of the organization: one pass over the recorded traffic, bounded and in slices. A rule counts only where
 * it was in its group, and all of its traffic was observed, for the whole window.
 */
import type { UnusedRule, UnusedRules } from '../../api/usage/rule-usage.ts';
import { rulesOf } from '../../policy/decide.ts';
import type { DeviceId, GroupId } from '../../policy/ids.ts';
import { ruleIdentity } from '../../policy/rule-identity/rule-identity.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
import type { FlowCoverage } from '../store/contract/flows/flows.ts';
import { observedAll, observedRefused, ObservedShare, type ObservedDevice } from './observed-time.ts';
import { coverageByDevice, registeredAt } from './observed-flows.ts';
import {
  countHits,
  groupsIn,
  placeOf,
  policiesWith,
  rulesSince,
  type UsageOptions,
  type UsageRequest,
} from './usage.ts';

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

/** Whether all traffic that the rules of the group could decide was recorded since then. */
async function isObserved(
  group: PolicyGroup,
  devices: readonly ObservedDevice[],
  coverage: ReadonlyMap<DeviceId, readonly FlowCoverage[]>,
  { since, until, slices }: Pick<UsageRequest, 'since' | 'until'> & Pick<UsageOptions, 'slices'>,
): Promise<boolean> {
  const observed = group.guardrail === 'forbid' ? observedRefused : observedAll;
  const share = new ObservedShare({ from: since, until, observed });
  let isComplete = true;
  await slices.each(devices, (device) => {
    const rows = coverage.get(device.id) ?? [];
    isComplete &&= rows.every((row) => row.not_recorded === 0);
    share.add(device, rows);
  });
  return isComplete && share.isFull;
}

export async function unusedRules(asked: Omit<UsageRequest, 'group'>, options: UsageOptions): Promise<UnusedRules> {
  const { org, snapshot, until } = asked;
  const { slices } = options;
  const policies = await policiesWith(snapshot, undefined, slices);
  const devicesOf = new Map<GroupId, DeviceId[]>();
  await slices.each(policies, ([id, policy]) => {
    for (const group of groupsIn(policy)) {
      const known = devicesOf.get(group.id);
      if (known === undefined) devicesOf.set(group.id, [id]);
      else known.push(id);
    }
  });
  const { hits, since } = await countHits({ org, since: asked.since, until }, { ...options, policies });
  const coverage = await coverageByDevice(options, { org, devices: [...policies.keys()], since });
  const registered = new Map<DeviceId, ObservedDevice>();
  for (const one of await registeredAt(options, { org, devices: [...coverage.keys()] })) registered.set(one.id, one);
  const found: UnusedRule[] = [];
  let count = 0;
  for (const group of groupsToJudge(asked, devicesOf)) {
    const places = directions.flatMap((direction) =>
      rulesOf(group, direction).flatMap((rule, index) =>
        hits.has(placeOf(group.id, direction, index)) ? [] : [{ direction, rule }],
      ),
    );
    const ids = devicesOf.get(group.id) ?? [];
    const devices = ids.flatMap((id) => registered.get(id) ?? []);
    // A device that never reported was not observed.
    if (places.length === 0 || devices.length < ids.length) continue;
    if (!(await isObserved(group, devices, coverage, { since, until, slices }))) continue;
    const sinceOf = await rulesSince(options, { ...asked, group: group.id, since });
    for (const { direction, rule } of places) {
      if (sinceOf(direction, ruleIdentity(rule)) > since) continue;
      count += 1;
      const { members: _members, expired: _expired, ...written } = rule;
      if (found.length < mostRules)
        found.push({ group_id: group.id, group_name: group.name, direction, rule: written });
    }
  }
  return { since: new Date(since).toISOString(), until: new Date(until).toISOString(), count, rules: found };
}
