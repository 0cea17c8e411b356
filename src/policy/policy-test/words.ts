/** Owns the words of policy tests: their ends, the pair that fails one, why, and what would fix it. */
import type { Direction, Peer, StoredRule } from '../rule.ts';
import type { FailedEnd, PolicyTest, TestEnd, TestFailure } from './policy-test.ts';

/** What people call a device, by its id. */
export type DeviceWord = (id: string) => string;
const byId: DeviceWord = (id) => id;

type Connection = Pick<PolicyTest, 'protocol' | 'port'>;

const nameOf = ({ address, hostname = '', device_id }: FailedEnd): string =>
  device_id === undefined ? address : `${hostname === '' ? device_id : hostname} (${address})`;

/** A test's protocol and port, such as `tcp/5432`. */
const serviceInWords = ({ protocol, port }: Connection): string =>
  port === undefined ? protocol : `${protocol}/${port}`;

/** The pair in words, such as `web-1 (100.64.0.1) → db-1 (100.64.0.2) tcp/5432`. */
const pairInWords = (test: Connection, { from, to }: Pick<TestFailure, 'from' | 'to'>): string =>
  `${nameOf(from)} → ${nameOf(to)} ${serviceInWords(test)}`;

/** An end as policy files write it, such as `label:db+prod`. */
function endInWords(end: TestEnd, wordFor: DeviceWord): string {
  if ('labels' in end) return `label:${end.labels.join('+')}`;
  if ('device_id' in end) return `device:${wordFor(end.device_id)}`;
  return 'address' in end ? end.address : 'all devices';
}

/** A test in one line, such as `label:web → label:db tcp/5432 must be allowed`. */
export const testInWords = (test: Omit<PolicyTest, 'name'>, wordFor: DeviceWord = byId): string =>
  `${endInWords(test.from, wordFor)} → ${endInWords(test.to, wordFor)} ${serviceInWords(test)} must be ${test.expect === 'allow' ? 'allowed' : 'refused'}`;

/** A rule in one line, such as `tcp 5432 from label:web`. */
function ruleInWords(
  direction: Direction,
  { ip_protocol, from_port, to_port, ip_ranges = [], peers }: StoredRule,
  wordFor: DeviceWord,
): string {
  const ports = to_port === 0 ? '' : from_port === to_port ? ` ${to_port}` : ` ${from_port}-${to_port}`;
  const named = [...ip_ranges, ...(peers ?? []).map((peer: Peer) => endInWords(peer, wordFor))];
  const far = named.length > 0 ? named.slice(0, 4).join(', ') : 'any address';
  const more = named.length > 4 ? ` and ${named.length - 4} more` : '';
  return `${ip_protocol}${ports} ${direction === 'inbound' ? 'from' : 'to'} ${far}${more}`;
}

/** Whose policy decides. */
const decider = ({ direction, from, to }: TestFailure): string => nameOf(direction === 'outbound' ? from : to);

const groupOf = ({ group_name = '', group_id }: TestFailure): string =>
  `"${group_name === '' ? group_id : group_name}"`;

/** Why the pair is as it should not be. */
function reasonInWords(failure: TestFailure, wordFor: DeviceWord): string {
  const { direction, reason, rule } = failure;
  const words = rule === undefined ? '' : ` (${ruleInWords(direction, rule, wordFor)})`;
  switch (reason) {
    case 'no-rule':
      return `No ${direction} rule of ${decider(failure)} admits it.`;
    case 'forbid':
      return `The guardrail ${groupOf(failure)} forbids it${words}.`;
    case 'rule':
      return `An ${direction} rule of the group ${groupOf(failure)} admits it${words}.`;
    case 'require':
      return `The guardrail ${groupOf(failure)} requires it${words}.`;
    case 'open':
      return `${decider(failure)} has no ${direction} rules, so everything passes.`;
    case 'isolated':
      return 'A device of the pair is isolated.';
    case 'isolation-allows':
      return `The isolation of ${decider(failure)} allows it.`;
    default:
      return reason satisfies never;
  }
}

/** What would make the test pass, where one rule does. */
const fixInWords = ({ fix, group_id, group_name }: TestFailure, wordFor: DeviceWord): string | undefined => {
  if (fix !== undefined)
    return `This ${fix.direction} rule would admit it: ${ruleInWords(fix.direction, fix.rule, wordFor)}.`;
  return group_id === undefined ? undefined : `Change or remove that rule in "${group_name ?? group_id}".`;
};

/** The whole failure as sentences. */
export const failureInWords = (
  test: PolicyTest & { readonly until?: string | undefined },
  failure: TestFailure,
  wordFor: DeviceWord = byId,
): string =>
  [
    test.until === undefined
      ? undefined
      : `It passes only until ${test.until.slice(0, 19).replace('T', ' ')} UTC, when a trial ends. After that:`,
    `${pairInWords(test, failure)} must be ${test.expect === 'allow' ? 'allowed' : 'refused'}.`,
    reasonInWords(failure, wordFor),
    fixInWords(failure, wordFor),
  ]
    .filter((sentence) => sentence !== undefined)
    .join(' ');
