/** Owns the comparison of what the kernel has recorded with what the oracle says of the same packets (reference 1.2 (28)). */
import { elementsOf, tuplesOf, type RecordedTuple } from '../../src/nft/read/recorded.ts';
import { isRecordSetName, unrecordedCounter } from '../../src/nft/recording.ts';
import { printAddress } from '../../src/policy/address.ts';
import type { Packet } from '../../src/policy/packet.ts';
import { runQuickly } from '../lib/batch-runner.ts';
import { plainShape, type Shape } from '../lib/probe-bytes.ts';
import type { VerdictLab } from '../lib/verdict-lab.ts';
import type { Judged } from './compare.ts';
import type { Scenario } from './scenario.ts';

type Tuple = Omit<RecordedTuple, 'packets'>;

const keyOf = ({ direction, verdict, family, far, protocol, port }: Tuple): string =>
  `${direction} ${verdict} ${printAddress(family, far)} protocol ${protocol} port ${port ?? '-'}`;

/** The packet that ends a round of probes. */
const fence = /^inbound (?:refused|admitted) 100\.64\.0\.2 protocol 17 port 9$/;

interface Listing {
  readonly nftables: readonly {
    readonly set?: { readonly name: string; readonly table: string };
    readonly counter?: { readonly name: string; readonly packets: number };
  }[];
}

async function list(lab: VerdictLab, what: string, table: string): Promise<Listing> {
  const { stdout } = await runQuickly(lab.device, [
    'nft',
    '-j',
    '--numeric-protocol',
    'list',
    what,
    'table',
    'inet',
    table,
  ]);
  const { nftables } = JSON.parse(stdout) as Listing;
  // Some versions of nft list the sets of all tables.
  return { nftables: nftables.filter(({ set }) => set === undefined || set.table === table) };
}

/** What the table has recorded so far, and how many packets found no room. */
export async function recordedIn(
  lab: VerdictLab,
  table = 'service',
): Promise<{ readonly tuples: readonly RecordedTuple[]; readonly unrecorded: number }> {
  const [sets, counters] = [await list(lab, 'sets', table), await list(lab, 'counters', table)];
  const names = sets.nftables.flatMap(({ set }) => (set === undefined ? [] : [set.name]));
  const tuples = names.flatMap((name) => tuplesOf(name, elementsOf(sets, name)));
  const unrecorded = counters.nftables.find(({ counter }) => counter?.name === unrecordedCounter)?.counter?.packets;
  return { tuples, unrecorded: unrecorded ?? 0 };
}

/** Empties the sets that rules record into. */
export async function forgetRecorded(lab: VerdictLab, table = 'service'): Promise<void> {
  const { nftables } = await list(lab, 'sets', table);
  const names = nftables.flatMap(({ set }) => (set !== undefined && isRecordSetName(set.name) ? [set.name] : []));
  if (names.length > 0) await lab.load(names.map((name) => `flush set inet ${table} ${name}\n`).join(''));
}

const protocolOf = { tcp: 6, udp: 17, icmp: 1, icmpv6: 58 } as const;

export function tupleOf({ direction, family, remote, transport }: Packet, verdict: Tuple['verdict']): Tuple {
  const protocol = transport.kind === 'other' ? transport.protocol : protocolOf[transport.kind];
  const tuple = { direction, verdict, family, far: remote, protocol };
  return 'dport' in transport ? { ...tuple, port: transport.dport } : tuple;
}

/** SYN, and ACK: connection tracking takes up what is under way. Other packets of TCP begin nothing. */
const beginning: ReadonlySet<number> = new Set([0x02, 0x10]);
/** Connection tracking reads into these (DCCP, GRE, SCTP, UDP-Lite), and what probes have there may begin nothing. */
const readInto: ReadonlySet<number> = new Set([33, 47, 132, 136]);

/** Whether a packet that the rules have judged is certainly recorded: connection tracking takes it for the first of a connection. */
function isFirst({ family, transport }: Packet, { flags, fragmented }: Shape): boolean {
  // The first fragment of a probe ends before the flags of TCP, which IPv6 does not allow.
  const isCut = family === 6 && fragmented === true;
  if (transport.kind === 'tcp') return beginning.has(flags) && transport.dport > 0 && !isCut;
  if (transport.kind === 'icmp') return family === 4 && transport.type === 8;
  if (transport.kind === 'icmpv6') return family === 6 && transport.type === 128;
  return transport.kind !== 'other' || !readInto.has(transport.protocol);
}

const isObserved = ({ expected: { verdict, reason } }: Judged, { observe }: Pick<Scenario, 'observe'>): boolean =>
  verdict === 'drop'
    ? observe === 'refused' || observe === 'all'
    : // What keeps the link and the agent going is no traffic of the policy's.
      observe === 'all' && reason.kind !== 'discovery' && reason.kind !== 'server';

const keyOfJudged = ({ packet, expected }: Judged): string =>
  keyOf(tupleOf(packet, expected.verdict === 'drop' ? 'refused' : 'admitted'));

/** How many packets each tuple should have been recorded of. */
function expectedOf(observed: readonly Judged[]): ReadonlyMap<string, number> {
  const expected = new Map<string, number>();
  for (const each of observed) {
    if (!isFirst(each.packet, each.shape ?? plainShape)) continue;
    expected.set(keyOfJudged(each), (expected.get(keyOfJudged(each)) ?? 0) + 1);
  }
  return expected;
}

/** Where the record differs from what the oracle says. A round of probes may be sent again, so counts may be multiples. */
export function recordFaults(
  judged: readonly Judged[],
  scenario: Pick<Scenario, 'observe'>,
  { tuples, unrecorded }: Awaited<ReturnType<typeof recordedIn>>,
): readonly string[] {
  const observed = judged.filter((each) => isObserved(each, scenario));
  const decided = new Map<string, number>();
  for (const each of observed) decided.set(keyOfJudged(each), (decided.get(keyOfJudged(each)) ?? 0) + 1);
  const recorded = new Map(tuples.map(({ packets, ...tuple }) => [keyOf(tuple), packets]));
  const missing = [...expectedOf(observed)].flatMap(([key, count]) => {
    const packets = recorded.get(key) ?? 0;
    const isRight = packets >= count && (fence.test(key) || decided.get(key) !== count || packets % count === 0);
    return isRight ? [] : [`${count} packets, recorded as ${packets}: ${key}`];
  });
  const other = [...recorded.keys()].filter((key) => !decided.has(key) && !fence.test(key));
  return [
    ...missing,
    ...other.map((key) => `recorded, and not so decided: ${key}`),
    ...(unrecorded > 0 ? [`${unrecorded} packets found no room`] : []),
  ];
}
