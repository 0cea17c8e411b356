/** Owns the packet tracer: whether a packet passes, which side refuses it, and which rule of which group admits it. */
import type { Device, DeviceStatus } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { surroundingsOf } from '../../api/enforcement/surroundings.ts';
import { printAddress } from '../../policy/address.ts';
import { admittingRules, decide, rulesOf, type Decision, type RuleReason } from '../../policy/decide.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import type { Packet, Transport } from '../../policy/packet.ts';
import type { Fleet } from '../../policy/fleet/fleet.ts';
import { deviceIdentity } from '../../policy/fleet/identity.ts';
import type { Direction, StoredRule } from '../../policy/rule.ts';
import { exitCodes, usageError } from '../terminal/exit.ts';
import { mismatchWords } from '../../client/words/mismatch.ts';
import { peerWord, ruleWords } from '../../client/words/rule.ts';
import { peerNames, type PeerNames } from '../group/peer-text.ts';
import type { Session } from '../session/session.ts';
import { nearService, readPort } from '../terminal/port.ts';
import { printable } from '../../node/printable.ts';
import type { Paint } from '../terminal/screen.ts';
import { renderTable } from '../terminal/table.ts';
import { allDevices, deviceName } from '../lookup/device.ts';
import { allStatuses } from '../lookup/device-report.ts';
import { allGroups } from '../lookup/group.ts';
import { pastWords, readPast, type PastQuery } from '../lookup/past.ts';
import { doubtAbout, verdictWords } from './enforcement.ts';
import {
  readExplainQuery,
  readEndpoints,
  type ExplainQuery,
  type ExplainEndpoint,
  type ExplainOptions,
} from './explain-endpoints.ts';
import { fleetOf, knownPolicy } from './nft.ts';
import { keepTest } from '../lookup/keep-test.ts';
import { flowTraffic, recentlyRefused, refusalLines, type RefusalQuery } from './recently-refused.ts';
import { testOf } from './keep-answer.ts';
import { explainReach, type Admission } from './reach.ts';

interface Side {
  readonly device: Device;
  readonly direction: Direction;
  readonly policy: EffectivePolicy;
  readonly decision: Decision;
  readonly packet: Packet;
  readonly names: PeerNames;
  /** What the other end is called. */
  readonly farEnd: string;
  /** Whether the same holds for connections that the device redirects or translates for containers. */
  readonly containers: 'guard' | 'ignore';
  /** Why its packets may meet other rules than these; undefined where they do not. */
  readonly doubt: string | undefined;
}

export async function explain(session: Session, row: readonly string[], options: ExplainOptions): Promise<void> {
  const asked = readExplainQuery(row, options);
  const past = readPast(options);
  const at = past && timeOf(past);
  const [all, groups, statuses] = await Promise.all([
    allDevices(session, past),
    allGroups(session, past),
    past === undefined ? allStatuses(session) : undefined,
  ]);
  if (past !== undefined)
    session.say(`The policy as it was ${pastWords(past)}. Whether the devices enforced it then is not known.`);
  if (asked.to === undefined) {
    const { to: source, devices: placed } = readEndpoints({ to: asked.from ?? '' }, all);
    const around = { groups, statuses, at, fleet: fleetOf(placed), names: peerNames(placed) };
    const isOpen = asked.port === undefined && asked.proto === 'tcp';
    return explainReach(session, {
      source,
      devices: placed,
      policyOf: (device) => knownPolicy(device, groups, around.fleet, at),
      only: isOpen ? undefined : { transport: readTransport(asked, source.address.family), words: askedWords(asked) },
      judge: (to, transport) => judge(sidesOf(source, to, transport, around)),
    });
  }
  const { from, to, devices } = readEndpoints({ from: asked.from, to: asked.to }, all);
  const known: ExplainedPolicies = { groups, statuses, at, fleet: fleetOf(devices), names: peerNames(devices) };
  if (from === undefined) return explainWho(session, asked, { to, devices, ...known });
  if (from.address.family !== to.address.family) {
    throw usageError(
      `${from.name} is IPv${from.address.family} and ${to.name} is IPv${to.address.family}; no traffic is possible between them`,
    );
  }
  if (from.device === undefined && to.device === undefined) {
    throw usageError('neither the source nor the destination is a device of this organization; no rule applies');
  }
  const transport = readTransport(asked, from.address.family);
  const sides = sidesOf(from, to, transport, known);
  const passes = sides.every(({ decision }) => decision.verdict === 'accept');
  const refusals = past === undefined ? await recentlyRefused(session, sides.map(betweenEnds)) : [];
  await session.print({
    data: {
      verdict: passes ? 'allowed' : 'refused',
      ...(past === undefined ? { in_force: sides.every(({ doubt }) => doubt === undefined) } : past),
      from: endData(from),
      to: endData(to),
      sides: sides.map(sideData),
      ...(refusals.length > 0 && { recently_refused: refusals }),
    },
    ids: [passes ? 'allowed' : 'refused'],
    table: ({ paint }) =>
      `${render({ from, to, asked, passes, sides, paint })}${refusalLines(refusals)
        .map((line) => `${line}\n`)
        .join('')}`,
  });
  if (options.keep !== undefined) {
    const answer = { from, to, transport, passes, name: options.keep, words: askedWords(asked) };
    session.say(printable((await keepTest(session, testOf(answer))).sentence));
  }
  if (options.exitCode === true && !passes) process.exitCode = exitCodes.failed;
}

/** Rules that expire count for what they were then. A revision has no time here, so that such rules count as they do now. */
const timeOf = ({ at }: PastQuery): number | undefined => (at === undefined ? undefined : Date.parse(at));

const askedWords = ({ proto, port }: ExplainQuery): string => `${proto}${port === undefined ? '' : ` ${port}`}`;

/** By which rule the far side admits it, and why that may not be in force; undefined where a side refuses. */
function judge(sides: readonly Side[]): Admission | undefined {
  const last = sides.at(-1);
  if (last === undefined || sides.some(({ decision }) => decision.verdict !== 'accept')) return undefined;
  return { why: reasonWords(last)[0] ?? '', doubts: sides.flatMap(({ doubt }) => doubt ?? []) };
}

/** What is known of the organization. */
interface ExplainedPolicies {
  readonly groups: readonly SecurityGroup[];
  /** Absent for the past: only the present is known to be in force or not. */
  readonly statuses: ReadonlyMap<string, DeviceStatus> | undefined;
  /** The moment, in milliseconds since 1970; absent for now. */
  readonly at: number | undefined;
  readonly fleet: Fleet;
  readonly names: PeerNames;
}

const sidesOf = (
  from: ExplainEndpoint,
  to: ExplainEndpoint,
  transport: Transport,
  known: ExplainedPolicies,
): readonly Side[] => [
  ...(from.device === undefined ? [] : [sideOf(from.device, 'outbound', to, transport, known)]),
  ...(to.device === undefined ? [] : [sideOf(to.device, 'inbound', from, transport, known)]),
];

/** Every device that may connect there, by which rule, and whether both ends enforce it. */
async function explainWho(
  session: Session,
  asked: ExplainQuery,
  { to, devices, ...known }: ExplainedPolicies & { readonly to: ExplainEndpoint; readonly devices: readonly Device[] },
): Promise<void> {
  const transport = readTransport(asked, to.address.family);
  const admitted = devices.flatMap((device) => {
    const own = deviceIdentity(device).addresses.find(({ family }) => family === to.address.family);
    if (own === undefined || device.id === to.device?.id) return [];
    const from = { name: deviceName(device), address: own, device, isStandIn: false };
    const admission = judge(sidesOf(from, to, transport, known));
    return admission === undefined ? [] : [{ device, ...admission }];
  });
  await session.print({
    data: admitted.map(({ device, why, doubts }) => ({
      device_id: device.id,
      hostname: device.hostname,
      reason: why,
      in_force: doubts.length === 0,
      ...(doubts.length > 0 && { detail: doubts.join(', and ') }),
    })),
    ids: admitted.map(({ device }) => device.id),
    table: (layout) =>
      admitted.length === 0
        ? `No device may open a ${askedWords(asked)} connection to ${printable(to.name)}.\n`
        : renderTable(
            [
              { head: 'MAY CONNECT', text: ({ device }) => deviceName(device) },
              { head: 'BY', text: ({ why }) => why },
              {
                head: 'IN FORCE',
                text: ({ doubts }) => (doubts.length === 0 ? 'yes' : `no: ${doubts.join(', and ')}`),
                wraps: true,
              },
            ],
            admitted,
            layout,
          ),
  });
  if (to.device === undefined || known.at !== undefined) return;
  const { protocol, port } = flowTraffic(transport);
  const into = { device_id: to.device.id, direction: 'in' as const, protocol, ...(port !== undefined && { port }) };
  for (const line of refusalLines(await recentlyRefused(session, [into]))) session.say(line);
}

/** Traffic of one device between the two ends, on any port. */
const betweenEnds = ({ device, packet }: Side): RefusalQuery => ({
  device_id: device.id,
  direction: packet.direction === 'inbound' ? 'in' : 'out',
  far: printAddress(packet.family, packet.remote),
});

const echoRequest = { 4: { kind: 'icmp', type: 8 }, 6: { kind: 'icmpv6', type: 128 } } as const;

function readTransport({ proto, port }: ExplainQuery, family: 4 | 6): Transport {
  const word = proto.toLowerCase();
  if (word === 'tcp' || word === 'udp') {
    const number = readPort(port, word);
    if (port !== undefined && number === undefined)
      throw usageError(`\`${port}\` is not a port or a known service${nearService(port)}`);
    if (number === undefined)
      throw usageError(
        `${word} needs a port: give a number or a service, for example ringfence explain app-1 db-1 ssh, or use --port`,
      );
    return { kind: word, dport: number };
  }
  if (port !== undefined) throw usageError(`${proto} has no ports`);
  if (word === 'icmp' || word === 'icmpv4' || word === 'icmpv6' || word === 'ping') return echoRequest[family];
  const number = /^\d{1,3}$/.test(word) ? Number(word) : Number.NaN;
  if (number >= 0 && number <= 255) return { kind: 'other', protocol: number };
  throw usageError(`\`${proto}\` is not a protocol: use tcp, udp, icmp, or a protocol number`);
}

function sideOf(
  device: Device,
  direction: Direction,
  { address: remote, name: farEnd }: ExplainEndpoint,
  transport: Transport,
  { groups, statuses, at, fleet, names }: ExplainedPolicies,
): Side {
  const policy = knownPolicy(device, groups, fleet, at);
  const packet: Packet = { direction, family: remote.family, remote: remote.value, transport };
  const surroundings = surroundingsOf(statuses?.get(device.id)?.status);
  const { containers } = surroundings;
  const decision = decide(policy, packet, { ...surroundings, fleet });
  const doubt = statuses && doubtAbout(device, statuses);
  return { device, direction, policy, packet, containers, decision, names, farEnd, doubt };
}

const groupNames = ({ groups }: EffectivePolicy): string => groups.map(({ name }) => name).join(', ');

/** The rule, and the peer by which it names the far end. */
function ruleOf({ group, direction, rule, peer }: RuleReason<string>, names: PeerNames): string {
  const by = peer === undefined ? '' : `, by ${peerWord(peer, names)}`;
  return `rule \`${ruleWords(direction, rule, names)}\` of group ${group.name}${by}`;
}

/** The reason in words a person can act on. */
function reasonWords({ decision: { reason }, direction, policy, packet, names, farEnd }: Side): readonly string[] {
  switch (reason.kind) {
    case 'rule': {
      const others = admittingRules(policy, packet).length - 1;
      const more = others === 0 ? '' : ` (and by ${others} more)`;
      return [`${ruleOf(reason, names)}${more}`];
    }
    case 'forbid':
      return [
        `the guardrail ${reason.group.name} forbids it, regardless of other groups: ${ruleOf(reason, names)}`,
        ...admittingRules(policy, packet)
          .slice(0, shownRules)
          .map((rule) => `void: ${ruleOf(rule, names)}`),
      ];
    case 'require':
      return [`the guardrail ${reason.group.name} requires it, regardless of other groups: ${ruleOf(reason, names)}`];
    case 'open':
      return [`no outbound rules, so all traffic may leave (${groupNames(policy)})`];
    case 'no-rule': {
      const expired = (reason.expired ?? []).map((each) => `${ruleOf(each, names)} would admit it, but it has expired`);
      const rules = policy.groups.flatMap((group) =>
        rulesOf(group, direction).map((rule) => {
          const why = mismatchWords(rule, packet, farEnd);
          return `${group.name}: ${ruleWords(direction, rule, names)}${why === undefined ? '' : `: ${why}`}`;
        }),
      );
      const word = direction === 'inbound' ? 'inbound' : 'outbound';
      return [
        `no ${word} rule of ${groupNames(policy)} admits it`,
        ...expired.slice(0, shownRules),
        ...(rules.length === 0 ? [`there are no ${word} rules`] : rules.slice(0, shownRules)),
        ...(rules.length > shownRules ? [`… and ${rules.length - shownRules} more`] : []),
        ...(reason.peerGone ?? []).map(
          ({ group, peer }) => `${group.name}: ${peerWord(peer)} no longer exists, so the rule admits no device`,
        ),
      ];
    }
    case 'isolated':
      return ['this device is isolated'];
    case 'far-end-isolated':
      return ['the other device is isolated'];
    case 'isolation-allows':
      return [
        `this device is isolated, and its isolation allows ${reason.peer === undefined ? 'this' : peerWord(reason.peer, names)}`,
      ];
    case 'connection':
      return [`part of a connection that was admitted`];
    case 'discovery':
      return ['neighbour discovery'];
    case 'server':
      return ['admitted as traffic between the agent and its server'];
    case 'forwarded':
      return ['forwarded traffic'];
    default:
      return reason satisfies never;
  }
}

/** What of a container differs, or where one is easily overlooked. */
function containersWords(side: Side): readonly string[] {
  const { device, direction, decision } = side;
  const name = printable(deviceName(device));
  if (side.containers === 'ignore') return [`The rules do not apply to containers on ${name}: its agent ignores them.`];
  if (decision.reason.kind === 'server')
    return [`This does not include containers on ${name}: only the agent itself may use it.`];
  if (decision.verdict === 'accept') return [];
  return direction === 'inbound'
    ? [`The same applies to a published container port on ${name}; the rules see the published port.`]
    : [`The same applies to a container on ${name} whose address is translated.`];
}

const shownRules = 10;

/** Both ends may be one device. */
const unique = (texts: readonly string[]): readonly string[] => [...new Set(texts)];

function render(explanation: {
  readonly from: ExplainEndpoint;
  readonly to: ExplainEndpoint;
  readonly asked: ExplainQuery;
  readonly passes: boolean;
  readonly sides: readonly Side[];
  readonly paint: Paint;
}): string {
  const { from, to, asked, passes, sides, paint } = explanation;
  const end = ({ name, address, isStandIn }: ExplainEndpoint): string => {
    const text = isStandIn ? 'no address yet' : printAddress(address.family, address.value);
    return printable(name === text ? name : `${name} (${text})`);
  };
  const verdict = (good: boolean): string => paint(good ? 'green' : 'red', good ? 'allowed' : 'refused');
  const port = asked.port === undefined ? '' : ` ${asked.port}`;
  const doubts = unique(sides.flatMap(({ doubt }) => (doubt === undefined ? [] : [printable(doubt)])));
  const lines = [
    `${verdictWords(verdict(passes), doubts)}: a new ${asked.proto}${port} connection from ${end(from)} to ${end(to)}`,
  ];
  for (const side of sides) {
    const where = side.direction === 'outbound' ? 'out of' : 'into';
    const [first = '', ...rest] = reasonWords(side).map(printable);
    lines.push(
      `  ${where} ${printable(deviceName(side.device))}: ${verdict(side.decision.verdict === 'accept')}, ${first}`,
    );
    for (const line of rest) lines.push(`    ${line}`);
  }
  const whole =
    sides.length === 2 ? '' : 'Only one side is a device of this organization. The other side was not checked.';
  const nowhere = unique([from, to].filter(({ isStandIn }) => isStandIn).map(({ name }) => name));
  const notes = [
    ...sides.flatMap(containersWords),
    ...(whole === '' ? [] : [whole]),
    ...(nowhere.length === 0 ? [] : [`Rules by address cannot match ${printable(nowhere.join(' and '))} yet.`]),
  ].map((line) => paint('dim', line));
  return [...lines, ...notes].map((line) => `${line}\n`).join('');
}

const endData = ({ name, address, device, isStandIn }: ExplainEndpoint): object => ({
  name,
  ...(isStandIn ? {} : { address: printAddress(address.family, address.value) }),
  ...(device !== undefined && { device_id: device.id }),
});

/** Without the addresses that its peers have at this moment: they are no part of the rule. */
const ruleData = (rule: StoredRule): object =>
  Object.fromEntries(Object.entries(rule).filter(([name]) => name !== 'members' && name !== 'expired'));

function sideData(side: Side): object {
  const { device, direction, decision, policy, packet } = side;
  const { reason } = decision;
  return {
    device_id: device.id,
    direction,
    verdict: decision.verdict === 'accept' ? 'allowed' : 'refused',
    reason: reason.kind,
    containers: side.containers,
    groups: policy.groups.map(({ id }) => id),
    ...('rule' in reason && { group_id: reason.group.id, rule: ruleData(reason.rule) }),
    ...('peer' in reason && reason.peer && { peer: reason.peer }),
    ...(reason.kind === 'forbid' && {
      void_rules: admittingRules(policy, packet).map(({ group, index }) => ({ group_id: group.id, rule: index })),
    }),
    ...('expired' in reason && {
      expired: reason.expired?.map(({ group, index, rule }) => ({
        group_id: group.id,
        rule: index,
        expires_at: rule.expires_at,
      })),
    }),
    ...('peerGone' in reason && {
      peer_gone: reason.peerGone?.map(({ group, index, peer }) => ({ group_id: group.id, rule: index, peer })),
    }),
    in_force: side.doubt === undefined,
    ...(side.doubt !== undefined && { detail: side.doubt }),
  };
}
