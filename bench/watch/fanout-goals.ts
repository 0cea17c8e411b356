/** Owns which contenders the comparison sets beside each other, with how many streams, and what is asked of ours. */
import { median, type Goal } from '../lib/goals.ts';
import { figure } from '../lib/table.ts';
import {
  costInTurn,
  costOf,
  isAsked,
  names,
  openingCost,
  openingCosts,
  reopeningCost,
  type Name,
  type Shown,
  type Wanted,
} from './fanout.ts';

const atMost = (what: string, goal: number, measured: number, unit: string, beside = ''): Goal => ({
  what,
  goal,
  measured,
  unit,
  beside,
});
const atLeast = (...goal: Parameters<typeof atMost>): Goal => ({ ...atMost(...goal), atLeast: true });

/** What the floor and NATS core showed of the same. */
const besides = (of: (name: Name) => Shown, value: (shown: Shown) => number, unit: string): string =>
  (['floor', 'nats'] as const)
    .filter((name) => !Number.isNaN(value(of(name))))
    .map((name) => `${names[name]} ${figure(value(of(name)))} ${unit}`)
    .join(', ');

/** What a delivery costs ours ÷ what it costs another: in turn the median of what each pair of turns says, and alone where the other takes no turns. */
const ratioTo = (of: (name: Name) => Shown, name: Name, subject: Name = 'ours'): number => {
  const { turns, warm } = of(name);
  if (turns.length === 0) return costOf(of(subject).warm) / costOf(warm);
  return median(turns.map(({ its, ours }) => costOf(ours) / costOf(its)));
};

/** Microseconds for a delivery, ours and another's, as they are judged; then alone. */
const costsShown = (of: (name: Name) => Shown, name: Name, subject: Name = 'ours'): string => {
  const { turns, warm } = of(name);
  const apart = [costOf(of(subject).warm), costOf(warm)].map((cost) => figure(cost)).join(' and ');
  if (turns.length === 0) return `${apart} µs`;
  const inTurns = [costInTurn(turns, 'ours'), costInTurn(turns, 'its')].map((cost) => figure(cost)).join(' and ');
  return `${inTurns} µs; alone ${apart} µs: ${figure(costOf(of(subject).warm) / costOf(warm))} ×`;
};

/** Beside the floor by which ours is judged: the least on Node. */
const besideFloor = (of: (name: Name) => Shown): string => {
  const { name, turns } = of('floor-node');
  if (turns.length === 0) return '';
  return `; ${name} ${figure(costInTurn(turns, 'its'))} µs: ${figure(ratioTo(of, 'floor-node'))} ×`;
};

/** By the server's own processor time for a delivery, warm: other programs on the machine cannot flatter it. */
const ratios = (
  count: string,
  of: (name: Name) => Shown,
  by: Readonly<Partial<Record<Name, number>>>,
  subject: Name = 'ours',
): Goal[] =>
  (Object.entries(by) as [Name, number][])
    .filter(([name]) => isAsked(name))
    .map(([name, goal]) =>
      atMost(
        `processor time of a delivery to ${count}, ÷ ${names[name]}`,
        goal,
        ratioTo(of, name, subject),
        '×',
        `${costsShown(of, name, subject)}${name === 'floor' ? besideFloor(of) : ''}`,
      ),
    );

/** A stream that opens, ÷ bare Node `tls`, and one that resumes its session ÷ one that does not. */
const tlsOpenings = (of: (name: Name) => Shown): Goal[] => {
  const [again, resumed, bare] = [
    reopeningCost(of('tls-ours').reopenings),
    reopeningCost(of('tls-ours').resumptions),
    reopeningCost(of('tls-node').reopenings),
  ];
  return [
    atMost(
      'processor time of an opening stream with TLS, ÷ bare Node tls',
      1.3,
      openingCost(of('tls-ours')) / openingCost(of('tls-node')),
      '×',
      `${openingCosts(of('tls-ours'))} and ${openingCosts(of('tls-node'))} µs; NATS ${openingCosts(of('tls-nats'))} µs; again in the same processes ${figure(again)} and ${figure(bare)} µs: ${figure(again / bare)} ×`,
    ),
    atMost(
      'processor time of a stream that resumes its TLS session, ÷ a full handshake',
      0.5,
      resumed / again,
      '×',
      `${figure(resumed)} and ${figure(again)} µs, in the same process`,
    ),
  ];
};

export const fanOuts = {
  /** As our docs have people run it. More streams where memory allows: some 70 KB each, for server, generator and kernel. */
  deployed: {
    streams: Number(process.env['RINGFENCE_BENCH_STREAMS'] ?? 4_000),
    who: ['tls-floor', 'tls-node', 'tls-nats', 'tls-ours', 'nginx'],
    turns: ['tls-node', 'tls-nats'],
    openings: ['tls-ours', 'tls-node', 'tls-nats'],
    resumes: true,
    ours: 'tls-ours',
    goals: (of) => [
      ...ratios('all streams with TLS', of, { 'tls-node': 1.2, 'tls-nats': 1.3 }, 'tls-ours'),
      ...tlsOpenings(of),
      atMost('resident memory of an idle stream with TLS', 32, of('tls-ours').kbPerStream, 'KB'),
    ],
  },
  '1k': {
    streams: 1_000,
    who: ['floor', 'floor-write', 'floor-node', 'ours', 'nats', 'kv', 'etcd', 'gateway'],
    turns: ['floor', 'nats', 'floor-node'],
    sustained: 2e6,
    goals: (of) => [
      ...ratios('1k', of, { floor: 1.5, etcd: 0.35, nats: 0.6 }),
      atLeast(
        'sustained deliveries, 1k streams',
        2,
        of('ours').deliveries / 1e6,
        'M/s',
        besides(of, ({ deliveries }) => deliveries / 1e6, 'M/s'),
      ),
    ],
  },
  '10k': {
    streams: 10_000,
    who: ['floor', 'floor-write', 'floor-node', 'ours', 'nats', 'kv', 'etcd', 'gateway'],
    turns: ['floor', 'nats', 'floor-node'],
    openings: ['ours', 'nats'],
    sustained: 1.5e6,
    goals: (of) => [
      ...ratios('10k', of, { floor: 1.3, etcd: 0.25, nats: 0.5 }),
      atMost(
        'processor time of an opening stream, ÷ NATS core',
        1,
        openingCost(of('ours')) / openingCost(of('nats')),
        '×',
        `${openingCosts(of('ours'))} and ${openingCosts(of('nats'))} µs`,
      ),
      atLeast(
        'sustained deliveries, 10k streams',
        1.5,
        of('ours').deliveries / 1e6,
        'M/s',
        besides(of, ({ deliveries }) => deliveries / 1e6, 'M/s'),
      ),
      atLeast('sustained deliveries, 10k streams, ÷ NATS core', 6, of('ours').deliveries / of('nats').deliveries, '×'),
      atMost(
        'lag under 1.5 M deliveries/s, 10k streams, p99',
        150,
        of('ours').lag99,
        'ms',
        besides(of, ({ lag99 }) => lag99, 'ms'),
      ),
      atMost('resident memory of an idle stream', 10, of('ours').kbPerStream, 'KB'),
    ],
  },
  '19k': {
    streams: 19_000,
    who: ['floor', 'floor-write', 'floor-node', 'ours', 'nats', 'etcd'],
    turns: [],
    goals: () => [],
  },
} satisfies Readonly<Record<string, Wanted>>;
