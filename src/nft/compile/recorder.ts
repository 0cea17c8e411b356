/**
 * Owns the chains that record first packets and that answer refused ones (reference 1.2 (28), (29)). They only add to the rules of a policy: what is
 * accepted and what is dropped stays the same, also where a set is full.
 */
import type { Direction, Family } from '../../policy/rule.ts';
import {
  accept,
  drop,
  goBack,
  goOn,
  goto,
  icmpType,
  icmpv6Type,
  jump,
  node,
  protocolNumber,
  rule,
  tableNames,
  targets,
  type HelperChain,
  type Match,
  type RecordTuple,
  type Rule,
  type TableName,
  type Verdict,
} from '../ast.ts';
import type { ObjectName } from '../names.ts';
import { recordSetName, unrecordedCounter, type Generation, type Observe, type RecordedVerdict } from '../recording.ts';
import { helperName, type HelperPurpose } from './helpers.ts';

/** What the sender of a refused packet gets. */
export type RefuseWith = 'drop' | 'reject';

export interface RecorderOptions {
  /** `counters` unless given. */
  readonly observe?: Observe | undefined;
  /** `drop` unless given. */
  readonly refuseWith?: RefuseWith | undefined;
}

/** What a base chain leads to besides the rules of the policy. */
export interface RecorderChains {
  /** Records a packet that is about to be refused, and returns. */
  readonly refused?: ObjectName;
  /** Records a packet that everything after it admits, and returns. */
  readonly admitted?: ObjectName;
  /** Answers a packet that is about to be dropped. Beyond its rate it returns. */
  readonly answer?: ObjectName;
}

/** One direction in one table. */
export interface Recorder extends RecorderChains {
  /** What a rule does that admits a packet: accepts it, or leads to a chain that records and accepts it. */
  readonly admit: Verdict;
  /** What a rule does that forbids a packet: drops it, or leads to a chain that records or answers it, and drops it. */
  readonly refuse: Verdict;
  readonly helpers: readonly HelperChain[];
}

export interface RecorderPlace {
  readonly table: TableName;
  readonly direction: Direction;
}

export const isNew: Match = node({ kind: 'new' });
const second: Match = node({ kind: 'secondGeneration' });
const { icmp, tcp, udp, icmpv6 } = protocolNumber;
const withPorts: Match = node({ kind: 'protocols', protocols: [tcp, udp] });
const withoutPorts: Match = node({ kind: 'protocols', protocols: [icmp, tcp, udp, icmpv6], not: true });
const notIcmp: Match = node({ kind: 'protocols', protocols: [icmp, icmpv6], not: true });
/** Other messages of ICMP begin nothing that a rule is about. */
const ping: { readonly [F in Family]: Match } = {
  4: node({ kind: 'icmpTypes', family: 4, types: [icmpType.echoRequest] }),
  6: node({ kind: 'icmpTypes', family: 6, types: [icmpv6Type.echoRequest] }),
};
const families: readonly Family[] = [4, 6];

/** The same rule without a counter for each tuple. */
const uncounted = ({ record, ...rest }: Rule): Rule =>
  node({ ...rest, ...(record && { record: node({ ...record, uncounted: true }) }) });

/**
 * The rules that record into one generation. A rule whose set is full ends before its verdict, so the packet reaches the counter at the end.
 * A counter takes memory of each processor, of which the kernel has little at hand: a burst uses it up faster than the kernel makes more, above all
 * where processors are busy. So a tuple that gets no counter is recorded without one.
 */
function generationRules(
  { table, direction }: RecorderPlace,
  verdict: RecordedVerdict,
  generation: Generation,
): readonly Rule[] {
  const side = direction === 'inbound' ? 'saddr' : 'daddr';
  const records = (matches: readonly Match[], family: Family, port?: RecordTuple['port']): Rule => {
    const ports = port !== undefined;
    const set = recordSetName({ direction, verdict, family, ports, generation });
    const record = node({ set, family, side, ...(ports && { port }) });
    return node({ matches, record, action: goBack });
  };
  // A redirected connection is recorded with the port that it was made to, by which rules judge it.
  const isRedirected = table === 'service-forward' && direction === 'inbound';
  const ofPorts = (family: Family): Rule[] =>
    isRedirected
      ? [tcp, udp].map((protocol) => records([node({ kind: 'protocol', protocol })], family, 'original'))
      : [records([withPorts], family, 'packet')];
  const counted = [
    ...families.flatMap(ofPorts),
    ...families.map((family) => records([ping[family]], family)),
    ...families.map((family) => records([withoutPorts], family)),
  ];
  return [
    ...counted,
    ...counted.map(uncounted),
    ...[notIcmp, ping[4], ping[6]].map((match) => rule([match], goOn, unrecordedCounter)),
  ];
}

/** The rules of the chain that records; `next` is the chain of the second generation. */
export const recordRules = (place: RecorderPlace, verdict: RecordedVerdict, next: ObjectName): readonly Rule[] => [
  rule([second], goto(next)),
  ...generationRules(place, verdict, 1),
];
export const secondRules = (place: RecorderPlace, verdict: RecordedVerdict): readonly Rule[] =>
  generationRules(place, verdict, 2);

/** Answers in a second, in each direction and table: a flood must not become a flood of answers. */
const rate: Match = node({ kind: 'rate', perSecond: 100, burst: 100 });
const isTcp: Match = node({ kind: 'protocol', protocol: tcp });
const isNotTcp: Match = node({ kind: 'protocols', protocols: [tcp], not: true });

/** The kernel answers no reset with a reset and no ICMP error with another, so two devices cannot answer each other forever. */
export const answerRules: readonly Rule[] = [
  rule([isTcp, rate], node({ kind: 'reject', with: 'tcp-reset' })),
  rule([isNotTcp, rate], node({ kind: 'reject', with: 'admin-prohibited' })),
];

export const admitRules = (admitted: ObjectName): readonly Rule[] => [rule([isNew], jump(admitted)), rule([], accept)];

export const refuseRules = ({ refused, answer }: Omit<RecorderChains, 'admitted'>): readonly Rule[] => [
  ...(refused === undefined ? [] : [rule([isNew], jump(refused))]),
  ...(answer === undefined ? [] : [rule([], jump(answer))]),
  rule([], drop),
];

/** Where packets have their source translated, the kernel takes no answer. */
const answersAt = ({ table, direction }: RecorderPlace): boolean => table === 'service' || direction === 'inbound';

type BothTables = { readonly [T in TableName]: Recorder };

const plain: Recorder = node({ admit: accept, refuse: drop, helpers: [] });
const plainTables: BothTables = { service: plain, 'service-forward': plain };

/**
 * Both tables have their chains by the same names, because chains of addresses lead there and are the same in both. A name covers what both tables
 * hold under it.
 */
function makeRecorders(direction: Direction, { observe, refuseWith }: RecorderOptions, salt: string): BothTables {
  const helpers: { readonly [T in TableName]: HelperChain[] } = { service: [], 'service-forward': [] };
  const chain = (purpose: HelperPurpose, rulesIn: (place: RecorderPlace) => readonly Rule[]): ObjectName => {
    const contents = tableNames.map((table) => rulesIn({ table, direction }));
    const name = helperName(purpose, contents.flat(), salt);
    for (const [i, table] of tableNames.entries())
      helpers[table].push(node({ kind: 'helper', name, rules: contents[i] ?? [] }));
    return name;
  };
  const recordChain = (verdict: RecordedVerdict): ObjectName => {
    const next = chain('record', (place) => secondRules(place, verdict));
    return chain('record', (place) => recordRules(place, verdict, next));
  };
  const refused = observe === 'refused' || observe === 'all' ? recordChain('refused') : undefined;
  const admitted = observe === 'all' ? recordChain('admitted') : undefined;
  const answer =
    refuseWith === 'reject' ? chain('answer', (place) => (answersAt(place) ? answerRules : [])) : undefined;
  const admit = admitted && chain('admit', () => admitRules(admitted));
  const refuse = (refused ?? answer) && chain('refuse', () => refuseRules(chainsOf(refused, answer)));
  const recorderIn = (table: TableName): Recorder =>
    node({
      ...chainsOf(refused, answer),
      ...(admitted && { admitted }),
      admit: admit === undefined ? accept : goto(admit),
      refuse: refuse === undefined ? drop : goto(refuse),
      helpers: helpers[table],
    });
  return { service: recorderIn('service'), 'service-forward': recorderIn('service-forward') };
}

const chainsOf = (
  refused: ObjectName | undefined,
  answer: ObjectName | undefined,
): Omit<RecorderChains, 'admitted'> => ({
  ...(refused && { refused }),
  ...(answer && { answer }),
});

/** Those that were asked for last: the next policy has the same objects, so that nobody need compare them. */
const kept: { [D in Direction]?: { readonly key: string; readonly recorders: BothTables } } = {};

/** How packets of this direction are recorded and answered in each table. */
export function recordersOf(direction: Direction, options: RecorderOptions, salt = ''): BothTables {
  const { observe = 'counters', refuseWith = 'drop' } = options;
  if ((observe === 'off' || observe === 'counters') && refuseWith === 'drop') return plainTables;
  const key = `${observe} ${refuseWith} ${salt}`;
  const known = kept[direction];
  if (known?.key === key) return known.recorders;
  const recorders = makeRecorders(direction, { observe, refuseWith }, salt);
  kept[direction] = { key, recorders };
  return recorders;
}

/** The chains of the recorder that these chains lead to, directly or not, targets first. */
export function recorderHelpers(
  { helpers }: Recorder,
  chains: readonly { readonly rules: readonly Rule[] }[],
): readonly HelperChain[] {
  if (helpers.length === 0) return [];
  const wanted = new Set(chains.flatMap(({ rules }) => rules.flatMap(targets)));
  // Each one's targets come before it.
  const found = helpers.toReversed().filter(({ name, rules }) => {
    if (!wanted.has(name)) return false;
    for (const target of rules.flatMap(targets)) wanted.add(target);
    return true;
  });
  return found.toReversed();
}
