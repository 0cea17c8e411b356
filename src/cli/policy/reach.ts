/** Owns what a device can reach: every other device, on which ports, and by which rule. */
import type { Device } from '../../api/device.ts';
import { deviceIdentity } from '../../policy/fleet/identity.ts';
import { deviceName } from '../lookup/device.ts';
import type { Session } from '../session/session.ts';
import { usageError } from '../terminal/exit.ts';
import { printable } from '../../node/printable.ts';
import { renderTable } from '../terminal/table.ts';
import type { ExplainEndpoint } from './explain-endpoints.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import type { Transport } from '../../policy/packet.ts';
import type { Direction, StoredRule } from '../../policy/rule.ts';

interface ReachQuestion {
  readonly transport: Transport;
  /** What an answer of yes means: `tcp 5432`, `tcp 8000-8999`, `udp, other ports`. */
  readonly words: string;
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
function reachQuestions(from: EffectivePolicy, to: EffectivePolicy, family: 4 | 6): readonly ReachQuestion[] {
  const rules = [...rulesOf(from, 'outbound'), ...rulesOf(to, 'inbound')];
  const ports = (['tcp', 'udp'] as const).flatMap((kind) =>
    spansOf(rules.filter(({ ip_protocol }) => ip_protocol === kind)).map((span) => ({
      transport: { kind, dport: span.first },
      words: `${kind} ${spanWords(span)}`,
    })),
  );
  const echo = family === 4 ? ({ kind: 'icmp', type: 8 } as const) : ({ kind: 'icmpv6', type: 128 } as const);
  return [...ports, { transport: echo, words: 'ping' }];
}

/** A connection that both sides admit. */
export interface Admission {
  /** The rule of the far side. */
  readonly why: string;
  /** Why it may not be in force. */
  readonly doubts: readonly string[];
}

export interface ReachQuery {
  readonly source: ExplainEndpoint;
  readonly devices: readonly Device[];
  readonly policyOf: (device: Device) => EffectivePolicy;
  /** The only transport that was asked about; undefined: all. */
  readonly only: ReachQuestion | undefined;
  readonly judge: (to: ExplainEndpoint, transport: Transport) => Admission | undefined;
}

export async function explainReach(session: Session, query: ReachQuery): Promise<void> {
  const { source, devices, policyOf, only, judge } = query;
  const { device: own, name } = source;
  if (own === undefined) throw usageError(`${name} is not a device of this organization: give a destination too`);
  const { family } = source.address;
  const rows = devices.flatMap((device) => {
    const address = deviceIdentity(device).addresses.find((one) => one.family === family);
    if (address === undefined || device.id === own.id) return [];
    const to: ExplainEndpoint = { name: deviceName(device), address, device, isStandIn: false };
    const questions = only === undefined ? reachQuestions(policyOf(own), policyOf(device), family) : [only];
    return questions.flatMap(({ transport, words }) => {
      const admission = judge(to, transport);
      return admission === undefined ? [] : [{ device, on: words, ...admission }];
    });
  });
  await session.print({
    data: rows.map(({ device, on, why, doubts }) => ({
      device_id: device.id,
      hostname: device.hostname,
      on,
      reason: why,
      in_force: doubts.length === 0,
      ...(doubts.length > 0 && { detail: doubts.join(', and ') }),
    })),
    ids: [...new Set(rows.map(({ device }) => device.id))],
    table: (layout) =>
      rows.length === 0
        ? `${printable(name)} may open no ${only?.words ?? ''} connection to another device of the organization.\n`.replace(
            '  ',
            ' ',
          )
        : renderTable(
            [
              { head: 'MAY REACH', text: ({ device }) => deviceName(device) },
              { head: 'ON', text: ({ on }) => on },
              { head: 'BY', text: ({ why }) => why },
              {
                head: 'IN FORCE',
                text: ({ doubts }) => (doubts.length === 0 ? 'yes' : `no: ${doubts.join(', and ')}`),
                wraps: true,
              },
            ],
            rows,
            layout,
          ),
  });
}
