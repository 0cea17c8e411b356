/** Owns observed traffic in words: what it was, and which rule decides about it, or comes nearest and why it does not match. */
import type { Flow, FlowDecision } from '../../api/flows/flow.ts';
import type { Direction } from '../../policy/rule.ts';
import { expiryWords } from './expiry.ts';
import { portWords, ruleInSentence, type DeviceNaming } from './rule.ts';

const directions: { readonly [D in Flow['direction']]: Direction } = { in: 'inbound', out: 'outbound' };

export const flowDirection = ({ direction }: Pick<Flow, 'direction'>): Direction => directions[direction];

/** `tcp 5432`, `ping`, `protocol 47`. */
export function flowTraffic({ protocol, port }: Pick<Flow, 'protocol' | 'port'>): string {
  if (port !== undefined) return `${protocol} ${port}`;
  if (protocol === 'icmp' || protocol === 'icmpv6') return 'ping';
  return `protocol ${protocol}`;
}

/** The device at the far end and its address, or the address alone. */
export function flowFarEnd({ far, far_devices: [first, ...others] }: Pick<Flow, 'far' | 'far_devices'>): string {
  if (first === undefined) return far;
  const more = others.length === 0 ? '' : ` and ${others.length} more`;
  return `${first.hostname || 'a device'}${more} (${far})`;
}

type Nearest = NonNullable<FlowDecision['nearest']>;

/** Why a rule does not match, with the values of both: `its port is 443, not 22`. */
function mismatchOf(field: Nearest['differs'][number], { rule }: Nearest, flow: Flow): string {
  switch (field) {
    case 'expires_at':
      return rule.expires_at === undefined ? 'it has expired' : `it ${expiryWords(rule.expires_at)}`;
    case 'ip_protocol':
      return `it is about ${rule.ip_protocol}, not about ${flow.port === undefined ? flowTraffic(flow) : flow.protocol}`;
    case 'port': {
      const ports = portWords(rule);
      if (ports === '' || flow.port === undefined) return 'it is about other ports';
      return `its ${rule.from_port === rule.to_port ? 'port is' : 'ports are'}${ports}, not ${flow.port}`;
    }
    case 'far':
      return `${flowFarEnd(flow)} is not among those it names`;
    default:
      return field satisfies never;
  }
}

/** Why the present policy decides as it does. A rule comes between `before` and `after`. */
export interface FlowReason {
  readonly before: string;
  readonly rule?: { readonly group_id: string; readonly group_name: string; readonly words: string };
  readonly after?: string;
}

const otherReasons: { readonly [R in FlowDecision['reason']]: string } = {
  rule: 'a rule admits it',
  require: 'a guardrail requires it',
  forbid: 'a guardrail forbids it',
  open: 'none of its groups has an outbound rule, so everything may go out',
  'no-rule': 'no rule admits it',
  isolated: 'the device is isolated',
  'far-end-isolated': 'the far end is isolated',
  'isolation-allows': 'the device is isolated, and its isolation allows the far end',
  discovery: 'neighbour discovery is always admitted',
  server: 'the way of the agent to its server is always open',
  connection: 'it is part of an admitted connection',
  forwarded: 'the device only passes it on',
};

const ruleVerbs: Readonly<Partial<Record<FlowDecision['reason'], string>>> = {
  rule: 'admitted by',
  require: 'required by the guardrail',
  forbid: 'forbidden by the guardrail',
};

const capitalized = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

/** What a decision is about: the present policy, which may have changed since, or a policy that was not in force (`would`). */
export type DecisionTense = 'now' | 'would';

/** Undefined where the policy of the device is not known. */
export function flowReason(
  flow: Flow,
  { names, tense = 'now' }: { readonly names?: DeviceNaming; readonly tense?: DecisionTense } = {},
): FlowReason | undefined {
  const { decision } = flow;
  if (decision === undefined) return undefined;
  const direction = flowDirection(flow);
  const { reason, rule, nearest } = decision;
  const decided = (words: string): string => {
    if (tense === 'would') return capitalized(words);
    return decision.verdict === flow.verdict ? `Now ${words}` : `The policy has changed: now ${words}`;
  };
  const because = (words: string): string => decided(`${decision.verdict} because ${words}`);
  const named = ({ group_id, group_name, rule: its }: Omit<Nearest, 'differs'>) => ({
    group_id,
    group_name,
    words: ruleInSentence(direction, its, names),
  });
  const verb = ruleVerbs[reason];
  if (rule !== undefined)
    return { before: verb === undefined ? because(otherReasons[reason]) : decided(verb), rule: named(rule) };
  if (nearest !== undefined)
    return {
      before: `${because('no rule admits it')}. The nearest is`,
      rule: named(nearest),
      after: nearest.differs.map((field) => mismatchOf(field, nearest, flow)).join(', and '),
    };
  if (reason === 'no-rule') return { before: because(`none of its groups has an ${direction} rule`) };
  return { before: because(otherReasons[reason]) };
}

/** The reason as one text: `Now refused because no rule admits it. The nearest is web: tcp 443 from label:app (its port is 443, not 22)`. Empty where it is not known. */
export function reasonText(flow: Flow, tense: DecisionTense = 'now'): string {
  const reason = flowReason(flow, { tense });
  if (reason === undefined) return '';
  const { before, rule, after } = reason;
  return [before, rule && `${rule.group_name}: ${rule.words}`, after && `(${after})`].filter(Boolean).join(' ');
}
