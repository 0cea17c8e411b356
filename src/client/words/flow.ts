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
  rule: 'A rule admits it',
  require: 'A guardrail requires it',
  forbid: 'A guardrail forbids it',
  open: 'None of its groups has an outbound rule, so everything may go out',
  'no-rule': 'No rule admits it',
  isolated: 'The device is isolated',
  'far-end-isolated': 'The far end is isolated',
  'isolation-allows': 'The device is isolated, and its isolation allows the far end',
  discovery: 'Neighbour discovery is always admitted',
  server: 'The way of the agent to its server is always open',
  connection: 'It is part of an admitted connection',
  forwarded: 'The device only passes it on',
};

const ruleVerbs: Readonly<Partial<Record<FlowDecision['reason'], string>>> = {
  rule: 'Admitted by',
  require: 'Required by the guardrail',
  forbid: 'Forbidden by the guardrail',
};

/** Undefined where the policy of the device is not known. The words of the policy as it is now. */
export function flowReason(flow: Flow, names?: DeviceNaming): FlowReason | undefined {
  const { decision } = flow;
  if (decision === undefined) return undefined;
  const direction = flowDirection(flow);
  const { reason, rule, nearest } = decision;
  const changed = decision.verdict === flow.verdict ? '' : `The policy has changed: now it is ${decision.verdict}. `;
  const named = ({ group_id, group_name, rule: its }: Omit<Nearest, 'differs'>) => ({
    group_id,
    group_name,
    words: ruleInSentence(direction, its, names),
  });
  if (rule !== undefined)
    return { before: `${changed}${ruleVerbs[reason] ?? otherReasons[reason]}`, rule: named(rule) };
  if (nearest !== undefined)
    return {
      before: `${changed}No rule admits it. The nearest is`,
      rule: named(nearest),
      after: nearest.differs.map((field) => mismatchOf(field, nearest, flow)).join(', and '),
    };
  if (reason === 'no-rule') return { before: `${changed}None of its groups has an ${direction} rule` };
  return { before: `${changed}${otherReasons[reason]}` };
}

/** The reason as one text: `No rule admits it. The nearest is web: tcp 443 from label:app (its port is 443, not 22)`. Empty where it is not known. */
export function reasonText(flow: Flow): string {
  const reason = flowReason(flow);
  if (reason === undefined) return '';
  const { before, rule, after } = reason;
  return [before, rule && `${rule.group_name}: ${rule.words}`, after && `(${after})`].filter(Boolean).join(' ');
}
