/**
 * Owns isolation (reference 1.5): what a device refuses from isolated devices, and what remains of its own policy while
 * it is isolated.
 */
import { printAddress, type Address } from '../address.ts';
import type { EffectivePolicy } from '../effective.ts';
import type { DeviceIdentity } from '../fleet/identity.ts';
import { isNamed, peersKey } from '../fleet/selector.ts';
import { parseGroupId, reservedId } from '../ids.ts';
import { mergeRanges, type RangeSet } from '../range.ts';
import type { PolicyIsolation, RefusedDevice } from './policy-isolation.ts';
import type { Family, Members, Peer, PolicyGroup, StoredProtocol, StoredRule } from '../rule.ts';

const group = (id: string, name: string, rules: readonly StoredRule[]): PolicyGroup => ({
  id: parseGroupId(id),
  name,
  inbound: rules,
  outbound: rules,
});

const anyProtocol: readonly StoredProtocol[] = ['ipv4', 'ipv6'];
const ruleAbout = (ip_protocol: StoredProtocol, peers: readonly Peer[], members?: Members): StoredRule => ({
  ip_protocol,
  from_port: 0,
  to_port: 0,
  peers,
  ...(members && { members }),
});

/** The group that refuses isolated devices. It is made here and is in no record. */
const refusalGroupId = parseGroupId(reservedId(1));
/** The group that takes the place of all groups of an isolated device. */
const isolationGroupId = parseGroupId(reservedId(2));
/** Known by the objects: a record of an earlier version may have one of these ids. */
const [refusalGroups, isolationGroups] = [new WeakSet<PolicyGroup>(), new WeakSet<PolicyGroup>()];
export const isRefusalGroup = (given: PolicyGroup): boolean => refusalGroups.has(given);
export const isIsolationGroup = (given: PolicyGroup): boolean => isolationGroups.has(given);

/**
 * Represents all isolated devices, so that the rules stay the same when the isolated devices change. No device has this
 * id.
 */
const isolatedDevices: readonly Peer[] = [{ device_id: reservedId(0) }];

/** Whether the rule refuses isolated devices. Its members come from `policyIsolation` and from no fleet. */
export const isRefusal = ({ peers }: StoredRule): boolean => peers === isolatedDevices;

/** The addresses of an isolated device that the others refuse. */
export function refusedAddresses({
  addresses,
  isolated,
}: Pick<DeviceIdentity, 'addresses' | 'isolated'>): readonly Address[] {
  const { notRefused } = isolated ?? {};
  if (notRefused === undefined) return addresses;
  return addresses.filter(({ family, value }) => !notRefused.includes(printAddress(family, value)));
}

/**
 * What isolation adds to the policy of a device; nothing where no device is isolated that concerns it. `isolated` are the isolated devices
 * of the organization; others do no harm. A device that another one allows does not refuse it, and has no other part in its isolation.
 */
export function policyIsolation(self: DeviceIdentity, isolated: Iterable<DeviceIdentity>): PolicyIsolation | undefined {
  const refused: RefusedDevice[] = [];
  for (const device of isolated) {
    const { id, isolated: isolation } = device;
    if (isolation === undefined || id === self.id) continue;
    if (isolation.allow.some((peer) => isNamed(peer, self))) continue;
    refused.push({
      id,
      addresses: refusedAddresses(device),
      ...(isolation.until !== undefined && { until: isolation.until }),
    });
  }
  if (refused.length === 0 && self.isolated === undefined) return undefined;
  refused.sort((a, b) => (a.id < b.id ? -1 : 1));
  return { ...(self.isolated && { own: self.isolated }), refused };
}

const keys = new WeakMap<PolicyIsolation, string>();

/** Equal for isolations that mean the same, but for the addresses of those that the device itself allows. */
export function isolationKey(isolation: PolicyIsolation): string {
  let key = keys.get(isolation);
  if (key === undefined) keys.set(isolation, (key = writeKey(isolation)));
  return key;
}

function writeKey({ own, refused }: PolicyIsolation): string {
  const devices = refused.map(({ id, addresses, until }) =>
    [id, until, ...addresses.map(({ family, value }) => `${family}:${value}`)].join(' '),
  );
  return [
    ...(own === undefined ? [] : [`isolated until ${own.until}, allows ${peersKey(own.allow)}`]),
    ...devices,
  ].join('\n');
}

function membersOf(devices: readonly RefusedDevice[]): Members {
  const of = (family: Family): RangeSet =>
    mergeRanges(
      devices.flatMap(({ addresses }) =>
        addresses.filter((own) => own.family === family).map(({ value }) => ({ first: value, last: value })),
      ),
    );
  return { v4: of(4), v6: of(6) };
}

/** Made once for each list, so that the same devices give the same group. */
const refusals = new WeakMap<readonly RefusedDevice[], PolicyGroup>();

function refusalOf(refused: readonly RefusedDevice[]): PolicyGroup {
  let made = refusals.get(refused);
  if (made === undefined) {
    const members = membersOf(refused);
    const rules = anyProtocol.map((protocol) => ruleAbout(protocol, isolatedDevices, members));
    made = { ...group(refusalGroupId, 'isolated devices', rules), guardrail: 'forbid' };
    refusalGroups.add(made);
    refusals.set(refused, made);
  }
  return made;
}

type Own = NonNullable<PolicyIsolation['own']>;
const replacements = new WeakMap<Own, PolicyGroup>();

/** Known without a fleet: an agent whose policy names no devices follows none. */
const noMembers: Members = { v4: [], v6: [] };

/**
 * Admits what the isolation allows, in both directions, and nothing else. It closes outbound even if it allows nothing.
 */
function replacementFor(own: Own): PolicyGroup {
  let made = replacements.get(own);
  if (made === undefined) {
    const members = own.members ?? (own.allow.length === 0 ? noMembers : undefined);
    const rules = anyProtocol.map((protocol) => ruleAbout(protocol, own.allow, members));
    made = group(isolationGroupId, 'isolation', rules);
    isolationGroups.add(made);
    replacements.set(own, made);
  }
  return made;
}

function apply({ isolation, guardrails, ...policy }: EffectivePolicy): EffectivePolicy {
  const { own, refused = [] } = isolation ?? {};
  const { forbid = [], require = [] } = guardrails ?? {};
  const above = {
    forbid: refused.length === 0 ? forbid : [refusalOf(refused), ...forbid],
    require: own === undefined ? require : [],
  };
  return {
    ...policy,
    ...(own && { source: 'list' as const, groups: [replacementFor(own)] }),
    ...(above.forbid.length + above.require.length > 0 && { guardrails: above }),
  };
}

const applied = new WeakMap<EffectivePolicy, EffectivePolicy>();

/**
 * The policy with its isolation as groups and guardrails. Isolated devices are refused first, as if a guardrail forbade them. While the device
 * itself is isolated, its `forbid` guardrails hold, then its isolation admits whom it allows, and nothing else of the policy counts.
 * Every isolation counts, whatever its time: `policyAt` leaves out those that are over.
 */
export function withIsolation(policy: EffectivePolicy): EffectivePolicy {
  if (policy.isolation === undefined) return policy;
  let made = applied.get(policy);
  if (made === undefined) applied.set(policy, (made = apply(policy)));
  return made;
}

/** What is left of isolations at a moment. */
export interface IsolationAtMoment {
  readonly isolation?: PolicyIsolation;
  /** When the next one ends by time; absent where none does. */
  readonly changesAt?: number;
}

/** The same object where none has ended. */
export function isolationAt(isolation: PolicyIsolation, now: number): IsolationAtMoment {
  const isActive = ({ until }: { readonly until?: number }): boolean => until === undefined || until > now;
  const { own, refused } = isolation;
  const left = refused.every(isActive) ? refused : refused.filter(isActive);
  const ownLeft = own !== undefined && isActive(own) ? own : undefined;
  const ends = [...left, ...(ownLeft ? [ownLeft] : [])].flatMap(({ until }) => until ?? []);
  const changesAt = ends.length === 0 ? {} : { changesAt: Math.min(...ends) };
  if (left === refused && ownLeft === own) return { isolation, ...changesAt };
  if (left.length === 0 && ownLeft === undefined) return {};
  return { isolation: { ...(ownLeft && { own: ownLeft }), refused: left }, ...changesAt };
}

/** Whether the policy is that of an isolated device, with its isolation as groups. */
export const isIsolated = ({ groups }: EffectivePolicy): boolean => groups.some(isIsolationGroup);
