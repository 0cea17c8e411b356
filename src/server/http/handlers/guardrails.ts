/** Owns the warnings about rules that guardrails make void (reference 1.4). */
import type { GroupOwner } from '../../../organization/decide/group.ts';
import type { GroupWarning } from '../../../api/group.ts';
import { policyAt } from '../../../policy/time/policy-at.ts';
import { Fleet } from '../../../policy/fleet/fleet.ts';
import { resolvePolicy } from '../../../policy/fleet/resolve.ts';
import { voidRules } from '../../../policy/guardrail/void-rules.ts';
import { parseGroupId, type GroupId, type OrganizationId } from '../../../policy/ids.ts';
import type { PolicyGroup, StoredRule } from '../../../policy/rule.ts';
import type { SavedGroup } from '../../store/data/groups.ts';
import type { GroupRecord } from '../../store/data/records.ts';
import type { Store } from '../../store/open.ts';
import { stored, type RecordResult } from '../call.ts';

const policyOf = ({ id, group_name, inbound_rules = [], outbound_rules = [] }: GroupRecord): PolicyGroup => ({
  id,
  name: group_name,
  inbound: inbound_rules,
  outbound: outbound_rules,
});

/** The most warnings that one answer lists. */
const mostWarnings = 100;

/**
 * Above this number of rules and ranges nothing is compared, so that an owner's large guardrails do not make a member's
 * write expensive.
 */
const mostCompared = 2_000;
/** The limit of comparison steps. */
const mostSteps = 100_000;

const weightOf = ({ inbound, outbound }: PolicyGroup): number =>
  [...inbound, ...outbound].reduce(
    (sum, { ip_ranges = [], peers = [] }) => sum + 1 + ip_ranges.length + peers.length,
    0,
  );

/**
 * Replaces the peers of a rule by any address. If the result is void, the rule is void for every set of peers. Peers of
 * a forbid add nothing here.
 */
const widened = (rule: StoredRule): StoredRule =>
  rule.peers === undefined || rule.expired === true
    ? rule
    : { ip_protocol: rule.ip_protocol, from_port: rule.from_port, to_port: rule.to_port, ip_ranges: [] };
const widenedGroup = (group: PolicyGroup): PolicyGroup => ({
  ...group,
  inbound: group.inbound.map(widened),
  outbound: group.outbound.map(widened),
});

interface VoidPointers {
  readonly pointers: readonly string[];
  /** False where there was too much to look at. */
  readonly complete: boolean;
}

function voidPointers(group: PolicyGroup, forbid: readonly PolicyGroup[]): VoidPointers {
  const { policy } = policyAt({ source: 'list', groups: [group], guardrails: { forbid, require: [] } }, Date.now());
  const guardrails = resolvePolicy({ ...policy, groups: [] }, new Fleet());
  const { rules, complete } = voidRules({ ...guardrails, groups: policy.groups.map(widenedGroup) }, mostSteps);
  return { pointers: rules.map(({ direction, index }) => `/${direction}_rules/${index}`), complete };
}

const onDevices = (devices: number): string =>
  devices === 0 ? 'every device' : devices === 1 ? 'one device that has it' : `${devices} devices that have it`;

const notCompared = (guardrail_ids: GroupId[]): GroupWarning => ({
  pointer: '',
  code: 'not_compared',
  detail:
    'There are too many rules, labels or devices to compare with the guardrails: other rules may also have no effect. To check a connection, use explain.',
  guardrail_ids,
});

/** The warnings for the writer of a group. */
export async function warningsFor(
  store: Store,
  org: OrganizationId,
  written: SavedGroup,
): Promise<readonly GroupWarning[]> {
  if (!written.mayBeVoid) return [];
  const sets = await store.groups.forbidsOn(org, parseGroupId(written.id));
  if (sets === undefined) return [notCompared([])];
  // Without a forbid, the record is not read again.
  if (sets.length === 0 || written.record.guardrail !== undefined) return [];
  const group = policyOf(written.record);
  const found = new Map<string, GroupWarning>();
  /** Guardrails that were not compared completely. */
  const skipped = new Set<GroupId>();
  for (const { guardrails: forbid, devices } of sets) {
    if (weightOf(group) + forbid.reduce((sum, one) => sum + weightOf(one), 0) > mostCompared) {
      for (const { id } of forbid) skipped.add(id);
      continue;
    }
    const say = (by: readonly PolicyGroup[]): void => {
      const { pointers, complete } = voidPointers(group, by);
      if (!complete) for (const { id } of by) skipped.add(id);
      for (const pointer of pointers) {
        if (found.has(pointer)) continue;
        if (found.size >= mostWarnings) {
          for (const { id } of by) skipped.add(id);
          break;
        }
        const names = by.map(({ name }) => name).join(', ');
        const detail = `On ${onDevices(devices)}, this rule has no effect: ${names} forbids everything that it admits.`;
        found.set(pointer, { pointer, code: 'void_by_guardrail', detail, guardrail_ids: by.map(({ id }) => id) });
      }
    };
    // One of them alone is the better answer; what none forbids alone, they may forbid together.
    for (const one of forbid) say([one]);
    if (forbid.length > 1) say(forbid);
  }
  return skipped.size === 0 ? [...found.values()] : [...found.values(), notCompared([...skipped])];
}

/** Two groups of one owner may have one name; commands then find them by id only. */
async function sameNameWarnings(
  store: Store,
  org: OrganizationId,
  id: GroupId,
  { name, owner }: GivenName,
): Promise<readonly GroupWarning[]> {
  const ids = await store.groups.sameName(org, owner, name, id);
  if (ids.length === 0) return [];
  const whose = owner === 'organization' ? 'The organization' : 'The same user';
  const detail = `${whose} already has a group with the name ${name} (${ids.join(', ')}).`;
  return [{ pointer: '/group_name', code: 'same_name', detail, guardrail_ids: [], group_ids: [...ids] }];
}

export interface GivenName {
  readonly name: string;
  readonly owner: GroupOwner;
}

export interface WarningOptions {
  /** The path of the new record. */
  readonly location?: string;
  /** The name that the write gave to the group. */
  readonly named?: GivenName | undefined;
}

/** The answer to a write of a group. */
export async function withWarnings(
  store: Store,
  org: OrganizationId,
  group: SavedGroup,
  { location, named }: WarningOptions = {},
): Promise<RecordResult> {
  const answer = stored(group, location);
  const [voids, names] = await Promise.all([
    warningsFor(store, org, group),
    named === undefined ? [] : sameNameWarnings(store, org, parseGroupId(group.id), named),
  ]);
  const warnings = [...names, ...voids];
  if (warnings.length === 0) return answer;
  return { ...answer, json: `${group.json.slice(0, -1)},"warnings":${JSON.stringify(warnings)}}` };
}
