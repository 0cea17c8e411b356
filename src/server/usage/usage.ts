/**
 * Owns the usage of rules: which rule of a group decided the traffic that agents observed. The kernel counts packets by group, because it merges the
 * rules of all groups into sets. So agents ask `decide` for the traffic that they record, by the policy in force, and say it with each report.
 */
import type { GroupUsage, RuleUsage } from '../../api/usage/rule-usage.ts';
import { rulesOf } from '../../policy/decide.ts';
import type { GroupId, OrganizationId } from '../../policy/ids.ts';
import type { Direction } from '../../policy/rule.ts';
import { ruleIdOf } from '../../policy/rule-identity/rule-id.ts';
import { ruleIdentity } from '../../policy/rule-identity/rule-identity.ts';
import type { Organization } from '../../organization/organization.ts';
import type { GroupReader } from '../store/data/groups.ts';
import type { Store } from '../store/open.ts';
import { policiesWith } from './group-policies.ts';
import { ObservedRules, type ObservedRulesOptions } from './observed-rules.ts';
import { observedAll, observedRefused, type ObservedShare } from './observed-time.ts';

export interface UsageOptions extends ObservedRulesOptions {
  readonly store: Pick<Store, 'ruleUsage' | 'history' | 'devices' | 'organizations'>;
}

export interface UsageRequest {
  readonly org: OrganizationId;
  readonly group: GroupId;
  readonly snapshot: Organization;
  readonly reader: GroupReader;
  /** Milliseconds since the epoch. */
  readonly since: number;
  readonly until: number;
}

const directions = ['inbound', 'outbound'] as const;
const statesLooked = 64;
/** A state may have some megabytes. */
const statesAtOnce = 2;

/** The states of a group, newest first, a few at a time. */
async function* statesOf(
  { store }: UsageOptions,
  { org, group, reader }: Pick<UsageRequest, 'org' | 'group' | 'reader'>,
) {
  let below: number | undefined;
  for (let left = statesLooked; left > 0; left -= statesAtOnce) {
    const states = await store.history.ofGroup(org, group, { limit: statesAtOnce, below, reader });
    yield* states;
    below = states.at(-1)?.revision;
    if (states.length < statesAtOnce) return;
  }
}

/** Since when each rule has been in the group and enforced without a break, as far as the history of the window goes back. A group that was watch only had no rules in force. */
export async function rulesSince(
  options: UsageOptions,
  asked: Pick<UsageRequest, 'org' | 'group' | 'reader' | 'since'>,
): Promise<(direction: Direction, identity: string) => number> {
  const { since } = asked;
  const { slices } = options;
  const found = new Map<string, number>();
  const ended = new Set<string>();
  let isNewest = true;
  for await (const { record, at } of statesOf(options, asked)) {
    const here = new Set<string>();
    for (const direction of record.mode === 'observe' ? [] : directions)
      await slices.each(record[`${direction}_rules`] ?? [], (rule) => here.add(`${direction} ${ruleIdentity(rule)}`));
    for (const key of here) if (isNewest || (found.has(key) && !ended.has(key))) found.set(key, Date.parse(at));
    for (const key of found.keys()) if (!here.has(key)) ended.add(key);
    isNewest = false;
    if (Date.parse(at) <= since) break;
  }
  return (direction, identity) => Math.max(since, found.get(`${direction} ${identity}`) ?? since);
}

/** Undefined where there is no such group. */
export async function groupUsage(asked: UsageRequest, options: UsageOptions): Promise<GroupUsage | undefined> {
  const { org, group: id, snapshot, since, until } = asked;
  const group = snapshot.groups.get(id)?.group;
  if (group === undefined) return undefined;
  const devices = [...(await policiesWith(snapshot, id, options.slices)).keys()];
  const known = await ObservedRules.read({ org, group: id, devices, since }, options);
  const not_recorded = await known.notRecorded(devices);
  const observed = group.guardrail === 'forbid' ? observedRefused : observedAll;
  // Most rules of a group are equally old.
  const shares = new Map<number, ObservedShare>();
  const shareSince = async (from: number): Promise<ObservedShare> => {
    const share = shares.get(from) ?? (await known.shareOf(id, devices, { from, until, observed }));
    shares.set(from, share);
    return share;
  };
  const sinceOf = await rulesSince(options, asked);
  const rules: RuleUsage[] = [];
  for (const direction of directions) {
    const places: (Pick<RuleUsage, 'rule' | 'rule_id'> & { readonly from: number })[] = [];
    await options.slices.each(rulesOf(group, direction).entries(), ([index, rule]) =>
      places.push({ rule: index, rule_id: ruleIdOf(direction, rule), from: sinceOf(direction, ruleIdentity(rule)) }),
    );
    for (const { rule, rule_id, from } of places) {
      const share = await shareSince(from);
      const count = known.countOf(id, rule_id);
      const isKnown = share.isFull && not_recorded === 0;
      rules.push({
        direction,
        rule,
        rule_id,
        packets: count?.packets ?? 0,
        ...(count && { last_hit: count.last_hit }),
        state: count !== undefined ? 'used' : isKnown ? 'unused' : 'unknown',
        observed: share.value,
        since: new Date(from).toISOString(),
      });
    }
  }
  return {
    group_id: id,
    since: new Date(since).toISOString(),
    until: new Date(until).toISOString(),
    devices: devices.length,
    observed: (await shareSince(since)).value,
    not_recorded,
    rules,
  };
}
