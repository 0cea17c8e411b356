/** Owns the lists of explanations: what a device can reach, on which ports, and which devices may connect to it. */
import type { Device } from '../../api/device.ts';
import { printable } from '../../policy/names/printable.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import type { Direction, StoredRule } from '../../policy/rule.ts';
import { deviceName, isolatedLines } from '../lookup/device.ts';
import type { Session } from '../session/session.ts';
import { usageError } from '../terminal/exit.ts';
import { renderTable, type Column } from '../terminal/table.ts';
import { allDoubts, enforcementData, type Doubts } from './enforcement.ts';
import {
  echoRequest,
  pairData,
  pairsOf,
  pairWords,
  type DeviceEndpoint,
  type EndpointPair,
  type NamedEndpoint,
  type TransportOf,
} from './explain-endpoints.ts';
import { judge, reasonWords, type ExplainedPolicies } from './explain-sides.ts';
import { flowTraffic, recentlyRefused, refusalLines } from './recently-refused.ts';

export interface ExplainQuestion {
  readonly transportOf: TransportOf;
  /** What an answer of yes means: `tcp 5432`, `tcp 8000-8999`, `udp, other ports`. */
  readonly words: string;
}

/** A connection that both sides admit. */
interface Admission {
  /** The rule of the far side, and between which addresses, where these are not the first. */
  readonly why: string;
  readonly pair: EndpointPair;
  readonly doubts: Doubts;
}

/** How the first pair of addresses that may connect is admitted; undefined where none may. */
function admissionOf(
  from: NamedEndpoint,
  to: NamedEndpoint,
  question: Parameters<typeof judge>[1],
): Admission | undefined {
  for (const [index, pair] of pairsOf(from, to).entries()) {
    const { sides, passes } = judge(pair, question);
    const last = sides.at(-1);
    if (!passes || last === undefined) continue;
    const why = reasonWords(last)[0] ?? '';
    return { why: index === 0 ? why : `${why}, ${pairWords(pair)}`, pair, doubts: allDoubts(sides) };
  }
  return undefined;
}

const rulesOf = ({ groups, guardrails }: EffectivePolicy, direction: Direction): readonly StoredRule[] =>
  [...groups, ...(guardrails?.require ?? []), ...(guardrails?.forbid ?? [])].flatMap((group) => group[direction]);

interface PortSpan {
  readonly first: number;
  readonly last: number;
}

/** The spans between all borders that rules name, so that no rule ends inside one. */
function spansOf(rules: readonly StoredRule[]): readonly PortSpan[] {
  const named = rules.filter(({ from_port, to_port }) => from_port > 0 || to_port > 0);
  const starts = new Set([1, ...named.flatMap(({ from_port, to_port }) => [Math.max(1, from_port), to_port + 1])]);
  const sorted = [...starts].filter((port) => port <= 65_535).toSorted((a, b) => a - b);
  return sorted.map((first, index) => ({ first, last: (sorted[index + 1] ?? 65_536) - 1 }));
}

const spanWords = ({ first, last }: PortSpan): string =>
  first === 1 && last === 65_535 ? 'any port' : first === last ? String(first) : `${first}-${last}`;

/** Each question covers all ports of its span: rules decide alike for them. */
function reachQuestions(from: EffectivePolicy, to: EffectivePolicy): readonly ExplainQuestion[] {
  const rules = [...rulesOf(from, 'outbound'), ...rulesOf(to, 'inbound')];
  const ports = (['tcp', 'udp'] as const).flatMap((kind) =>
    // Rules of a whole family name ports of both.
    spansOf(rules.filter(({ ip_protocol }) => [kind, 'ipv4', 'ipv6'].includes(ip_protocol))).map((span) => ({
      transportOf: () => ({ kind, dport: span.first }),
      words: `${kind} ${spanWords(span)}`,
    })),
  );
  return [...ports, { transportOf: echoRequest, words: 'ping' }];
}

interface Row extends Admission {
  readonly device: Device;
  /** Absent where the question is about one port. */
  readonly on?: string;
}

interface RowsForm {
  readonly head: string;
  readonly none: string;
  /** The device that all rows are about: where it is isolated, that comes first. */
  readonly about: Device | undefined;
  /** Without enforcement: nothing is known of it. */
  readonly isPast: boolean;
}

async function printRows(session: Session, rows: readonly Row[], form: RowsForm): Promise<void> {
  const { head, none, about, isPast } = form;
  const isolation = isolatedLines(about === undefined ? [] : [about])
    .map((line) => `${line}\n`)
    .join('');
  const enforcement: Column<Row> = { head: 'IN FORCE', text: inForceWords, wraps: true };
  const columns: readonly Column<Row>[] = [
    { head, text: ({ device }) => deviceName(device) },
    ...(rows.some(({ on }) => on !== undefined) ? [{ head: 'ON', text: ({ on = '' }: Row) => on }] : []),
    { head: 'BY', text: ({ why }) => why },
    ...(isPast ? [] : [enforcement]),
  ];
  await session.print({
    data: rows.map(({ device, on, why, pair, doubts }) => ({
      device_id: device.id,
      hostname: device.hostname,
      ...(on !== undefined && { on }),
      ...pairData(pair),
      reason: why,
      ...enforcementData(doubts),
    })),
    ids: [...new Set(rows.map(({ device }) => device.id))],
    table: (layout) => `${isolation}${rows.length === 0 ? `${none}\n` : renderTable(columns, rows, layout)}`,
  });
}

const inForceWords = ({ doubts = [] }: Row): string => (doubts.length === 0 ? 'yes' : `no: ${doubts.join(', and ')}`);

export interface WhoQuery {
  readonly to: NamedEndpoint;
  readonly devices: readonly DeviceEndpoint[];
  readonly question: ExplainQuestion;
  readonly known: ExplainedPolicies;
}

/** Every device that may connect there, by which rule, and whether both ends enforce it. */
export async function explainWho(session: Session, { to, devices, question, known }: WhoQuery): Promise<void> {
  const { transportOf, words } = question;
  const rows = devices.flatMap((from) => {
    if (from.device.id === to.device?.id) return [];
    const admission = admissionOf(from, to, { transportOf, known });
    return admission === undefined ? [] : [{ device: from.device, ...admission }];
  });
  const isPast = known.statuses === undefined;
  await printRows(session, rows, {
    head: 'MAY CONNECT',
    none: `No device may open a ${words} connection to ${printable(to.name)}.`,
    about: to.device,
    isPast,
  });
  if (to.device === undefined || isPast) return;
  const device_id = to.device.id;
  const traffic = to.addresses.map(({ family }) => flowTraffic(transportOf(family)));
  const byProtocol = new Map(traffic.map((one) => [one.protocol, one]));
  const into = [...byProtocol.values()].map((one) => ({ device_id, direction: 'in' as const, ...one }));
  for (const line of refusalLines(await recentlyRefused(session, into))) session.say(line);
}

export interface ReachQuery {
  readonly source: NamedEndpoint;
  readonly devices: readonly DeviceEndpoint[];
  /** The only question; undefined: every port. */
  readonly only: ExplainQuestion | undefined;
  readonly known: ExplainedPolicies;
}

export async function explainReach(session: Session, { source, devices, only, known }: ReachQuery): Promise<void> {
  const { device: own, name } = source;
  if (own === undefined) throw usageError(`${name} is not a device of this organization: give a destination too`);
  const rows = devices.flatMap((to) => {
    const { device } = to;
    if (device.id === own.id) return [];
    const questions = only === undefined ? reachQuestions(known.policyOf(own), known.policyOf(device)) : [only];
    return questions.flatMap(({ transportOf, words }) => {
      const admission = admissionOf(source, to, { transportOf, known });
      return admission === undefined ? [] : [{ device, on: words, ...admission }];
    });
  });
  const what = only === undefined ? 'connection' : `${only.words} connection`;
  await printRows(session, rows, {
    head: 'MAY REACH',
    none: `${printable(name)} may open no ${what} to another device of the organization.`,
    about: own,
    isPast: known.statuses === undefined,
  });
}
