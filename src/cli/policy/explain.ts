/** Owns the packet tracer: whether a packet passes, which side refuses it, and which rule of which group admits it. */
import type { Flow } from '../../api/flows/flow.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { printAddress } from '../../policy/address.ts';
import { exitCodes, usageError } from '../terminal/exit.ts';
import type { Session } from '../session/session.ts';
import { printable } from '../../policy/names/printable.ts';
import type { Paint } from '../terminal/screen.ts';
import { shortTime } from '../terminal/time.ts';
import { allDevices, deviceName, allStatuses } from '../lookup/device.ts';
import { allGroups } from '../lookup/group.ts';
import { pastMoment, pastWords, readPast, type PastQuery } from '../lookup/past.ts';
import { allDoubts, enforcementData, verdictWords } from './enforcement.ts';
import {
  pairData,
  pairsOf,
  pairWords,
  queryWords,
  readEndpoints,
  readExplainQuery,
  readTransport,
  type EndpointPair,
  type ExplainEndpoint,
  type ExplainOptions,
  type NamedEndpoint,
} from './explain-endpoints.ts';
import {
  containersWords,
  explainedPolicies,
  judge,
  reasonWords,
  sideData,
  type JudgedPair,
  type Side,
} from './explain-sides.ts';
import { keepTest } from '../lookup/stored-tests.ts';
import { recentlyRefused, refusalLines, type RefusalQuery } from './recently-refused.ts';
import { explainReach, explainWho } from './reach.ts';
import type { Transport } from '../../policy/packet.ts';
import type { PolicyTest, TestEnd } from '../../policy/policy-test/policy-test.ts';

export async function explain(session: Session, row: readonly string[], options: ExplainOptions): Promise<void> {
  const asked = readExplainQuery(row, options);
  const past = readPast(options);
  const [all, groups, statuses] = await Promise.all([
    allDevices(session, past),
    allGroups(session, past),
    past === undefined ? allStatuses(session) : undefined,
  ]);
  const at = past && pastMoment(past, [...all, ...groups]);
  if (past !== undefined)
    session.say(`The policy as it was ${pastWords(past)}. Whether the devices enforced it then is not known.`);
  if (past?.at_revision !== undefined && at !== undefined && groups.some(hasExpiry))
    session.say(
      `Rules that expire are judged as at ${shortTime(new Date(at).toISOString())}, when the newest of these records was written.`,
    );
  const named = asked.to === undefined ? { to: asked.from ?? '' } : { from: asked.from, to: asked.to };
  const { from, to, devices } = readEndpoints(named, all);
  const known = explainedPolicies({ groups, devices: devices.map(({ device }) => device), statuses, at });
  if (asked.to === undefined) {
    const isOpen = asked.port === undefined && asked.proto === 'tcp';
    const only = isOpen ? undefined : { transportOf: readTransport(asked), words: queryWords(asked) };
    return explainReach(session, { source: to, devices, only, known });
  }
  const question = { transportOf: readTransport(asked), words: queryWords(asked) };
  if (from === undefined) return explainWho(session, { to, devices, question, known });
  const judged = judgePairs(from, to, { ...question, known });
  const { shown } = judged;
  const refusals = past === undefined ? await recentlyRefused(session, shown.sides.map(betweenEnds)) : [];
  await printAnswer(session, { ...judged, past, words: question.words, refusals });
  if (options.keep !== undefined) {
    const answer = { ...shown, name: options.keep, words: question.words };
    session.say(printable((await keepTest(session, testOf(answer))).sentence));
  }
  if (options.exitCode === true && !shown.passes) process.exitCode = exitCodes.failed;
}

const hasExpiry = ({ inbound_rules = [], outbound_rules = [] }: SecurityGroup): boolean =>
  [...inbound_rules, ...outbound_rules].some(({ expires_at }) => expires_at !== undefined);

interface JudgedPairs {
  /** The first pair that may connect, or else the first of all. */
  readonly shown: JudgedPair;
  /** The pairs that may not connect, beside one that may. */
  readonly refused: readonly EndpointPair[];
  /** How many pairs there are. */
  readonly count: number;
}

/** A device may connect from any of its addresses, and to any address of the other one. */
function judgePairs(from: NamedEndpoint, to: NamedEndpoint, question: Parameters<typeof judge>[1]): JudgedPairs {
  if (from.device === undefined && to.device === undefined) {
    throw usageError('neither the source nor the destination is a device of this organization; no rule applies');
  }
  const pairs = pairsOf(from, to).map((pair) => judge(pair, question));
  const shown = pairs.find(({ passes }) => passes) ?? pairs[0];
  if (shown === undefined) {
    const [source, target] = [from, to].map(({ name, addresses }) => `${name} is IPv${addresses[0]?.family ?? 4}`);
    throw usageError(`${source} and ${target}; no traffic is possible between them`);
  }
  return { shown, refused: shown.passes ? pairs.filter(({ passes }) => !passes) : [], count: pairs.length };
}

/** Traffic of one device between the two ends, on any port. */
const betweenEnds = ({ device, packet }: Side): RefusalQuery => ({
  device_id: device.id,
  direction: packet.direction === 'inbound' ? 'in' : 'out',
  far: printAddress(packet.family, packet.remote),
});

interface Answer extends JudgedPairs {
  readonly past: PastQuery | undefined;
  /** `tcp 5432` */
  readonly words: string;
  readonly refusals: readonly Flow[];
}

function printAnswer(session: Session, answer: Answer): Promise<void> {
  const { shown, refused, past, refusals } = answer;
  const { from, to, sides, passes } = shown;
  const verdict = passes ? 'allowed' : 'refused';
  const { in_force } = enforcementData(allDoubts(sides));
  return session.print({
    data: {
      verdict,
      ...(in_force !== undefined && { in_force }),
      ...past,
      from: endData(from),
      to: endData(to),
      sides: sides.map(sideData),
      ...(refused.length > 0 && { refused_pairs: refused.map(pairData) }),
      ...(refusals.length > 0 && { recently_refused: refusals }),
    },
    ids: [verdict],
    table: ({ paint }) =>
      [...answerLines(answer, paint), ...refusalLines(refusals)].map((line) => `${line}\n`).join(''),
  });
}

function answerLines({ shown, refused, count, words }: Answer, paint: Paint): readonly string[] {
  const { from, to, sides, passes } = shown;
  const end = ({ name, address, isStandIn }: ExplainEndpoint): string => {
    const text = isStandIn ? 'no address yet' : printAddress(address.family, address.value);
    return printable(name === text ? name : `${name} (${text})`);
  };
  const verdict = (good: boolean): string => paint(good ? 'green' : 'red', good ? 'allowed' : 'refused');
  const doubts = allDoubts(sides)?.map(printable);
  const lines = [`${verdictWords(verdict(passes), doubts)}: a new ${words} connection from ${end(from)} to ${end(to)}`];
  for (const side of sides) {
    const where = side.direction === 'outbound' ? 'out of' : 'into';
    const [first = '', ...rest] = reasonWords(side).map(printable);
    lines.push(
      `  ${where} ${printable(deviceName(side.device))}: ${verdict(side.decision.verdict === 'accept')}, ${first}`,
    );
    for (const line of rest) lines.push(`    ${line}`);
  }
  const nowhere = [...new Set([from, to].filter(({ isStandIn }) => isStandIn).map(({ name }) => name))];
  const notes = [
    ...sides.flatMap(containersWords),
    ...(sides.length === 2 ? [] : ['Only one side is a device of this organization. The other side was not checked.']),
    ...(nowhere.length === 0 ? [] : [`Rules by address cannot match ${printable(nowhere.join(' and '))} yet.`]),
    ...(passes || count === 1 ? [] : ['Between their other addresses it is refused, too.']),
  ].map((line) => paint('dim', line));
  return [...lines, ...refusedLines(refused), ...notes];
}

const shownPairs = 5;

function refusedLines(refused: readonly EndpointPair[]): readonly string[] {
  const more = refused.length - shownPairs;
  return [
    ...refused.slice(0, shownPairs).map((pair) => `It is refused ${pairWords(pair)}.`),
    ...(more > 0 ? [`It is refused between ${more} more pairs of addresses.`] : []),
  ];
}

const endData = ({ name, address, device, isStandIn }: ExplainEndpoint): object => ({
  name,
  ...(isStandIn ? {} : { address: printAddress(address.family, address.value) }),
  ...(device !== undefined && { device_id: device.id }),
});

/** A device stays the same device when it gets another name or address. */
const endOf = ({ device, address }: ExplainEndpoint): TestEnd =>
  device === undefined ? { address: printAddress(address.family, address.value) } : { device_id: device.id };

function connectionOf(transport: Transport): Pick<PolicyTest, 'protocol' | 'port'> {
  switch (transport.kind) {
    case 'tcp':
    case 'udp':
      return { protocol: transport.kind, port: transport.dport };
    case 'icmp':
    case 'icmpv6':
      return { protocol: 'icmp' };
    case 'other':
      throw usageError('a policy test is about tcp, udp or icmp: --keep does not work with other protocols');
    default:
      return transport satisfies never;
  }
}

export interface ExplainAnswer {
  readonly from: ExplainEndpoint;
  readonly to: ExplainEndpoint;
  readonly transport: Transport;
  readonly passes: boolean;
  /** What the test is called; true: what the answer says. */
  readonly name: string | true;
  /** `tcp 5432` */
  readonly words: string;
}

export const testOf = ({ from, to, transport, passes, name, words }: ExplainAnswer): PolicyTest => ({
  name: name === true ? `${from.name} ${passes ? 'reaches' : 'does not reach'} ${to.name} on ${words}` : name,
  from: endOf(from),
  to: endOf(to),
  ...connectionOf(transport),
  expect: passes ? 'allow' : 'refuse',
});
