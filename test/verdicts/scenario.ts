/** Owns random policies: groups of written rules, as adversarial as they are valid, drawn from one seed. */
import { parseGroupId } from '../../src/policy/ids.ts';
import { readGroup } from '../../src/policy/group.ts';
import { effectivePolicy, type EffectivePolicy } from '../../src/policy/effective.ts';
import { Fleet } from '../../src/policy/fleet/fleet.ts';
import { deviceIdentity } from '../../src/policy/fleet/identity.ts';
import { resolvePolicy } from '../../src/policy/fleet/resolve.ts';
import { printAddress } from '../../src/policy/address.ts';
import { defaultLimits, namingLimits } from '../../src/policy/limits.ts';
import {
  defaultInboundRules,
  type Direction,
  type Family,
  type GuardrailKind,
  type Peer,
  type PolicyGroup,
  type Protocol,
  type SecurityRule,
} from '../../src/policy/rule.ts';
import type { RefuseWith } from '../../src/nft/compile/recorder.ts';
import type { Observe } from '../../src/nft/recording.ts';
import { policyAt } from '../../src/policy/time/policy-at.ts';
import { Random } from '../lib/random.ts';
import { drawAnchors, drawBlocks, drawRange, type DrawnRange } from './addresses.ts';
import { drawDevices, drawPeers, type DrawnDevice } from './naming.ts';

/** A rule as drawn: no ranges mean any address, unless there are peers. */
export interface DrawnRule {
  readonly protocol: Protocol;
  readonly from: number;
  readonly to: number;
  readonly ranges: readonly DrawnRange[];
  readonly peers?: readonly Peer[];
  /** Whether it has expired at the moment at which packets are sent, or expires later; absent: it never does. */
  readonly expiry?: 'past' | 'later';
}

export type DrawnGroup = Readonly<Record<Direction, readonly DrawnRule[]>>;

export interface Scenario {
  readonly seed: number;
  readonly kind: 'mixed' | 'untouched default' | 'many ranges' | 'many blocks' | 'nested ports' | 'tangled ports';
  /** What applies while `applied` is empty. */
  readonly defaultGroup: DrawnGroup;
  readonly applied: readonly DrawnGroup[];
  readonly neighbourDiscovery: boolean;
  /** Of some, there are to be few sets and chains; see `optionsFor`. */
  readonly few: number | undefined;
  /** What is recorded, and what refused packets get: no verdict differs by that. */
  readonly observe: Observe;
  readonly refuseWith: RefuseWith;
  /** Whom peers may name. */
  readonly devices: readonly DrawnDevice[];
  readonly guardrails: Readonly<Record<GuardrailKind, readonly DrawnGroup[]>>;
}

interface Surroundings {
  readonly random: Random;
  readonly anchors: Readonly<Record<Family, readonly bigint[]>>;
  readonly ports: readonly number[];
  readonly ranges: DrawnRange[];
}

const wellKnownPorts = [1, 2, 22, 53, 80, 443, 1_023, 1_024, 8_080, 32_767, 32_768, 49_152, 65_534, 65_535];
const protocolsDrawn: readonly Protocol[] = [
  'tcp',
  'tcp',
  'udp',
  'udp',
  'icmp',
  'icmpv4',
  'icmpv6',
  'ipv4',
  'ipv6',
  'ip',
];

function drawKind(roll: number): Scenario['kind'] {
  if (roll < 2) return 'untouched default';
  if (roll < 5) return 'many ranges';
  if (roll < 8) return 'nested ports';
  if (roll < 12) return 'many blocks';
  return roll < 94 ? 'mixed' : 'tangled ports';
}

/** Every third scenario names devices and has guardrails, every fourth has rules that expire; drawn apart, so that the rest stays as it is. */
export function drawScenario(seed: number): Scenario {
  const { scenario, around } = drawUnnamed(seed);
  const named = seed % 3 === 1 ? withNames(scenario, { ...around, random: new Random(seed ^ 0x6e61_6d65) }) : scenario;
  return seed % 4 === 2 ? withExpiry(named, new Random(seed ^ 0x656e_6473)) : named;
}

/** The moment at which packets are sent, and the ends of rules before and after it. */
const sentAt = Date.parse('2100-01-02T00:00:00Z');
const expiryTimes = { past: '2100-01-01T00:00:00Z', later: '2100-01-03T00:00:00Z' } as const;

function withExpiry(scenario: Scenario, random: Random): Scenario {
  const rules = (some: readonly DrawnRule[]): DrawnRule[] =>
    some.map((rule) => (random.chance(0.4) ? { ...rule, expiry: random.pick(['past', 'past', 'later']) } : rule));
  const groups = (some: readonly DrawnGroup[]): DrawnGroup[] =>
    some.map(({ inbound, outbound }) => ({ inbound: rules(inbound), outbound: rules(outbound) }));
  const { forbid, require } = scenario.guardrails;
  return {
    ...scenario,
    applied: groups(scenario.applied),
    guardrails: { forbid: groups(forbid), require: groups(require) },
  };
}

function withNames(scenario: Scenario, around: Surroundings): Scenario {
  const { random } = around;
  const devices = drawDevices(random, around.anchors, around.ranges);
  const naming = (rule: DrawnRule): DrawnRule => {
    const bare = random.chance(0.5) ? { ...rule, ranges: [] } : rule;
    return { ...bare, peers: drawPeers(random, devices) };
  };
  const sometimes = (rules: readonly DrawnRule[], chance: number): DrawnRule[] =>
    rules.map((rule) => (random.chance(chance) ? naming(rule) : rule));
  const guardrail = (): DrawnGroup => {
    const rules = (): DrawnRule[] =>
      sometimes(
        random.many(random.int(0, 2), () => drawRule(around)),
        0.5,
      );
    return { inbound: rules(), outbound: rules() };
  };
  const applied = scenario.applied.map(({ inbound, outbound }) => ({
    inbound: sometimes(inbound, 0.4),
    outbound: sometimes(outbound, 0.4),
  }));
  const guardrails = {
    forbid: random.many(random.pick([0, 1, 1, 2]), guardrail),
    require: random.many(random.pick([0, 1, 1]), guardrail),
  };
  return { ...scenario, devices, applied, guardrails };
}

function drawUnnamed(seed: number): { readonly scenario: Scenario; readonly around: Surroundings } {
  const random = new Random(seed);
  const around: Surroundings = {
    random,
    anchors: { 4: drawAnchors(random, 4), 6: drawAnchors(random, 6) },
    ports: [...random.shuffled(wellKnownPorts).slice(0, random.int(2, 4)), random.int(1, 65_535)],
    ranges: [],
  };
  const kind = drawKind(random.bits() % 100);
  const defaultGroup = kind === 'untouched default' || random.chance(0.8) ? asCreated : drawGroup(around);
  const neighbourDiscovery = random.chance(0.5);
  const few = seed % 3 === 0 ? seed % 5 : undefined;
  const guardrails = { forbid: [], require: [] };
  const observe = (['all', 'counters', 'refused', 'all'] as const)[seed % 4] ?? 'all';
  const refuseWith = seed % 5 === 0 ? 'reject' : 'drop';
  const seen = { observe, refuseWith } as const;
  const rest = { seed, kind, defaultGroup, neighbourDiscovery, few, ...seen, devices: [], guardrails } as const;
  return { scenario: { ...rest, applied: drawApplied(kind, around) }, around };
}

function drawApplied(kind: Scenario['kind'], around: Surroundings): DrawnGroup[] {
  const { random } = around;
  switch (kind) {
    case 'untouched default':
      return [];
    case 'many blocks':
      return [manyBlocks(around), drawGroup(around)];
    case 'many ranges':
      return [drawGroup(around), manyRanges(around)];
    case 'nested ports':
      return [nestedPorts(around), drawGroup(around)];
    case 'tangled ports':
      return [tangledPorts(around), drawGroup(around), tangledPorts(around)];
    case 'mixed':
      return random.many(random.pick([0, 1, 1, 2, 2, 3, 4]), () => drawGroup(around));
    default:
      return kind satisfies never;
  }
}

/** The default group that an organization starts with (reference 1.2 (11)). */
const asCreated: DrawnGroup = {
  inbound: defaultInboundRules.map((rule) => ({ protocol: rule.ip_protocol, from: 0, to: 0, ranges: [] })),
  outbound: [],
};

function drawGroup(around: Surroundings): DrawnGroup {
  const { random } = around;
  const rules = (emptiness: number): DrawnRule[] =>
    random.chance(emptiness) ? [] : random.many(random.int(1, 7), () => drawRule(around));
  return { inbound: rules(0.1), outbound: rules(0.25) };
}

function drawRule(around: Surroundings): DrawnRule {
  const { random } = around;
  const protocol = random.pick(protocolsDrawn);
  const [from, to] = protocol.startsWith('icmp') ? [0, 0] : drawPorts(random, around.ports);
  const count = random.chance(0.2) ? 0 : random.int(1, 4);
  return { protocol, from, to, ranges: random.many(count, () => drawNear(around, drawFamily(random, protocol))) };
}

function drawNear(around: Surroundings, family: Family): DrawnRange {
  const range = drawRange(around.random, family, around.anchors[family], around.ranges);
  around.ranges.push(range);
  return range;
}

/** Only a family that the protocol can name. */
function drawFamily(random: Random, protocol: Protocol): Family {
  if (protocol === 'ipv4' || protocol === 'icmpv4') return 4;
  if (protocol === 'ipv6' || protocol === 'icmpv6') return 6;
  return random.chance(0.5) ? 4 : 6;
}

function drawPorts(random: Random, near: readonly number[]): [number, number] {
  const from = Math.min(65_535, Math.max(1, random.pick(near) + random.int(-3, 3)));
  const kind = random.bits() % 100;
  if (kind < 35) return [0, 0];
  if (kind < 60) return [from, from];
  if (kind < 90) return [from, Math.min(65_535, from + random.pick([1, 2, 3, 7, 64, 1_000, 20_000]))];
  if (kind < 95) return [1, from];
  if (kind < 98) return [from, 65_535];
  return [1, 65_535];
}

/** Hundreds of small ranges in one rule, many of them touching. */
function manyRanges(around: Surroundings): DrawnGroup {
  const { random } = around;
  const rule = (): DrawnRule => {
    const [from, to] = drawPorts(random, around.ports);
    return {
      protocol: random.pick(['tcp', 'udp', 'ip']),
      from,
      to,
      ranges: random.many(random.int(150, 300), () => drawNear(around, random.pick([4, 6]))),
    };
  };
  return { inbound: [rule()], outbound: random.chance(0.5) ? [rule()] : [] };
}

/** Prefixes that are all of one length, which are looked up by another way than ranges are. */
function manyBlocks(around: Surroundings): DrawnGroup {
  const { random } = around;
  const rule = (): DrawnRule => {
    const [from, to] = drawPorts(random, around.ports);
    const ranges = ([4, 6] as const).flatMap((family) =>
      drawBlocks(random, family, around.anchors[family], random.int(12, 60)),
    );
    around.ranges.push(...random.many(8, () => random.pick(ranges)));
    return { protocol: random.pick(['tcp', 'udp', 'ip']), from, to, ranges };
  };
  return { inbound: [rule()], outbound: random.chance(0.5) ? [rule()] : [] };
}

/** Port ranges inside port ranges, each for somebody else: as disjoint intervals these would explode. */
function nestedPorts(around: Surroundings): DrawnGroup {
  const { random } = around;
  const depth = random.int(60, 90);
  const step = random.pick([1, 7, 64, 300]);
  const protocol = random.pick<Protocol>(['tcp', 'udp', 'ip']);
  const rules = Array.from({ length: depth }, (_, i): DrawnRule => ({
    protocol,
    from: 1_000 + i * step,
    to: 60_000 - i * step,
    ranges: [separateRange(4, i), separateRange(6, i), ...(random.chance(0.1) ? [drawNear(around, 4)] : [])],
  }));
  for (const range of random.many(6, () => random.pick(random.pick(rules).ranges))) around.ranges.push(range);
  return random.chance(0.5) ? { inbound: rules, outbound: [] } : { inbound: [], outbound: rules };
}

/** Port ranges of all lengths that overlap anyhow, each for somebody else and some for others too: a tree of several layers. */
function tangledPorts(around: Surroundings): DrawnGroup {
  const { random } = around;
  const protocol = random.pick<Protocol>(['tcp', 'udp', 'ip']);
  const rules = Array.from({ length: random.int(80, 110) }, (_, i): DrawnRule => {
    const from = random.int(1, 65_535);
    const to = Math.min(65_535, from + random.pick([0, 300, 5_000, 20_000, 45_000]));
    const others = random.many(random.int(0, 1), () => drawNear(around, random.pick([4, 6])));
    return { protocol, from, to, ranges: [separateRange(4, i), separateRange(6, i), ...others] };
  });
  for (const range of random.many(6, () => random.pick(random.pick(rules).ranges))) around.ranges.push(range);
  return random.chance(0.5) ? { inbound: rules, outbound: [] } : { inbound: [], outbound: rules };
}

/** No two of these merge. */
function separateRange(family: Family, index: number): DrawnRange {
  const first = family === 4 ? 0x0b00_0000n + BigInt(index) * 16n : (0x2001_0db9n << 96n) + BigInt(index) * 16n;
  const text =
    family === 4 ? `11.0.${index >> 4}.${(index & 15) * 16}/29` : `2001:db9::${(index * 16).toString(16)}/125`;
  return { family, first, last: first + 7n, text };
}

const written = ({ protocol, from, to, ranges, peers, expiry }: DrawnRule): SecurityRule => ({
  ip_protocol: protocol,
  from_port: from,
  to_port: to,
  ...(ranges.length > 0 ? { ip_ranges: ranges.map((range) => range.text) } : {}),
  ...(peers && { peers }),
  ...(expiry && { expires_at: expiryTimes[expiry] }),
});

/** The body that a person would send to make the group. */
export const writtenGroup = (group: DrawnGroup, name: string): Readonly<Record<string, unknown>> => ({
  group_name: name,
  inbound_rules: group.inbound.map(written),
  outbound_rules: group.outbound.map(written),
});

/** The group as the product stores it: through the same validation and normalization as a request. */
function storedGroup(drawn: DrawnGroup, index: number): PolicyGroup {
  const name = `group ${index}`;
  const limits = { ...defaultLimits, ...namingLimits };
  const { problems, group } = readGroup(writtenGroup(drawn, name), { mode: 'create', limits });
  if (problems.length > 0) throw new Error(`a drawn group is invalid: ${JSON.stringify(problems.slice(0, 3))}`);
  const id = parseGroupId(`00000000-0000-4000-8000-${index.toString(16).padStart(12, '0')}`);
  return { id, name, inbound: group.inbound_rules ?? [], outbound: group.outbound_rules ?? [] };
}

/** The devices of the scenario as the product knows them. */
export const fleetOf = ({ devices }: Scenario): Fleet =>
  new Fleet(
    devices.map(({ id, labels, addresses }) =>
      deviceIdentity({ id, labels, addresses: addresses.map(({ family, first }) => printAddress(family, first)) }),
    ),
  );

/** The policy as it is written, its peers not looked up yet. The last group of some applies by label. */
export function writtenPolicy(scenario: Scenario): EffectivePolicy {
  const groups = scenario.applied.map((group, i) => storedGroup(group, i + 1));
  const [last] = scenario.seed % 2 === 0 ? [] : groups.slice(-1);
  const guardrails = (['forbid', 'require'] as const).flatMap((guardrail, k) =>
    scenario.guardrails[guardrail].map((group, i): PolicyGroup => ({
      ...storedGroup(group, 0x100 * (k + 1) + i),
      guardrail,
      appliesTo: [{ all_devices: true }],
    })),
  );
  const policy = effectivePolicy({
    list: groups.filter((group) => group !== last).map((group) => group.id),
    find: (id) => groups.find((group) => group.id === id),
    defaultGroup: storedGroup(scenario.defaultGroup, 0),
    labels: ['here'],
    byLabel: [...guardrails, ...(last === undefined ? [] : [{ ...last, appliesTo: [{ labels: ['here'] }] }])],
  });
  if ('missing' in policy) throw new Error('a drawn policy misses a group');
  return policy;
}

/** Every other scenario that names devices is enforced by names, the others by addresses. */
export const isByNames = ({ devices, seed }: Scenario): boolean => devices.length > 0 && seed % 2 === 1;

/** The policy with the addresses that its peers stand for, at the moment at which packets are sent. */
export const policyOf = (scenario: Scenario): EffectivePolicy =>
  policyAt(resolvePolicy(writtenPolicy(scenario), fleetOf(scenario)), sentAt).policy;

/** The groups in force, as drawn. */
export const groupsInForce = ({ applied, defaultGroup }: Scenario): readonly DrawnGroup[] =>
  applied.length > 0 ? applied : [defaultGroup];

/** Every group that has a say, guardrails included. */
export const allGroups = (scenario: Scenario): readonly DrawnGroup[] => [
  ...groupsInForce(scenario),
  ...scenario.guardrails.forbid,
  ...scenario.guardrails.require,
];

const namesText = ({ devices, guardrails }: Scenario): string[] => [
  ...devices.map(({ labels, addresses, id }) => {
    const own = addresses.map(({ family, first }) => printAddress(family, first));
    return `device ${id} (${labels.join(', ')}): ${own.join(', ')}`;
  }),
  ...(['forbid', 'require'] as const).flatMap((kind) =>
    guardrails[kind].map((group) => `${kind} ${JSON.stringify(writtenGroup(group, kind))}`),
  ),
];

/** The scenario as a person can read and replay it. */
export const scenarioText = (scenario: Scenario): string =>
  [
    `seed ${scenario.seed} (${scenario.kind}), neighbour discovery ${scenario.neighbourDiscovery ? 'on' : 'off'}, ` +
      (scenario.applied.length === 0 ? 'the default group applies' : `${scenario.applied.length} groups applied`),
    ...groupsInForce(scenario).map((group, i) => JSON.stringify(writtenGroup(group, `group ${i + 1}`))),
    ...namesText(scenario),
  ].join('\n');
