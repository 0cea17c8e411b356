/** Owns the validation of rules: every problem of any JSON value, never an exception (reference 1.2 (15), 7 (1)). */
import { field, isObject, type JsonObject } from './json.ts';
import { parseRange } from './address.ts';
import { readPeers } from './fleet/read-peers.ts';
import { defaultLimits, ruleDescriptionLength, type Limits } from './limits.ts';
import { readText } from './names/read-text.ts';
import { normalizeRule, normalizeRules } from './normalize.ts';
import { at, Problems, show } from './problem.ts';
import { ruleIdentity } from './rule-identity/rule-identity.ts';
import { isExpired } from './time/policy-at.ts';
import { isTimestamp } from './time/timestamp.ts';
import { protocols, type Family, type Peer, type Protocol, type SecurityRule, type StoredRule } from './rule.ts';

/** What to hold rules to besides their form. */
export interface RuleChecks extends Limits {
  /** Whether the organization has this device. Absent: ids are not checked. */
  readonly knowsDevice?: ((id: string) => boolean) | undefined;
  /** Rules that are written must not have expired by then, in milliseconds since the epoch. Absent: rules are only read. */
  readonly now?: number | undefined;
  /** The rules of this direction as they are stored: one of them may stay although it has expired. */
  readonly storedRules?: (() => readonly StoredRule[]) | undefined;
}

const ruleFields = ['ip_protocol', 'from_port', 'to_port', 'ip_ranges', 'expires_at', 'description'];
const ruleFieldsWithPeers = [...ruleFields, 'peers'];
const highestPort = 65_535;
const longestTimestamp = 40;
const descriptionRule = { shortest: 0, longest: ruleDescriptionLength, lines: false };

/** Reports every field of the object that is none of the known ones. */
export function refuseUnknownFields(
  object: JsonObject,
  known: readonly string[],
  pointer: string,
  problems: Problems,
): void {
  for (const name of Object.keys(object)) {
    if (!known.includes(name)) {
      problems.add(
        at(pointer, name.slice(0, 100)),
        'unknown_field',
        () => `Unknown field ${show(name)}; known fields: ${known.join(', ')}.`,
      );
    }
  }
}

function readProtocol(rule: JsonObject, pointer: string, problems: Problems): Protocol | undefined {
  const value = field(rule, 'ip_protocol');
  const here = at(pointer, 'ip_protocol');
  if (value === undefined) {
    problems.add(here, 'missing_field', () => `A rule needs ip_protocol: one of ${protocols.join(', ')}.`);
    return undefined;
  }
  const lower = typeof value === 'string' && value.length <= 16 ? value.toLowerCase() : '';
  const protocol = protocols.find((known) => known === lower);
  if (protocol === undefined) {
    problems.add(
      here,
      'unknown_protocol',
      () => `${show(value)} is not a protocol; known protocols: ${protocols.join(', ')}.`,
    );
  }
  return protocol;
}

function readPort(
  rule: JsonObject,
  name: 'from_port' | 'to_port',
  pointer: string,
  problems: Problems,
): number | undefined {
  const value = field(rule, name);
  const here = at(pointer, name);
  if (value === undefined) {
    problems.add(here, 'missing_field', () => `A rule needs ${name}: a port, or 0 in both for any port.`);
  } else if (typeof value !== 'number' || !Number.isInteger(value)) {
    problems.add(here, 'port_not_integer', () => `${name} must be a whole number, got ${show(value)}.`);
  } else if (value < 0 || value > highestPort) {
    problems.add(here, 'port_out_of_range', () => `${name} must be between 0 and ${highestPort}, got ${show(value)}.`);
  } else {
    return value;
  }
  return undefined;
}

const isIcmp = (protocol: Protocol | undefined): boolean => protocol !== undefined && protocol.startsWith('icmp');

function checkPorts(
  protocol: Protocol | undefined,
  from: number,
  to: number,
  pointer: string,
  problems: Problems,
): void {
  if (isIcmp(protocol)) {
    if (from !== 0 || to !== 0) {
      const name = from === 0 ? 'to_port' : 'from_port';
      problems.add(
        at(pointer, name),
        'port_on_icmp',
        () => `An ${protocol} rule has no ports: from_port and to_port must be 0.`,
      );
    }
  } else if ((from === 0) !== (to === 0)) {
    const name = from === 0 ? 'from_port' : 'to_port';
    problems.add(
      at(pointer, name),
      'port_half_any',
      () => `${name} is 0 and the other port is not: give both ports, or 0 in both for any port.`,
    );
  } else if (from > to) {
    problems.add(at(pointer, 'from_port'), 'port_reversed', () => `from_port ${from} is greater than to_port ${to}.`);
  }
}

/** The only family a protocol can match, where it has one. `icmp` with IPv6 ranges is read as `icmpv6`. */
const onlyFamily: Readonly<Partial<Record<Protocol, Family>>> = { ipv4: 4, icmpv4: 4, ipv6: 6, icmpv6: 6 };

function readRanges(
  rule: JsonObject,
  protocol: Protocol | undefined,
  pointer: string,
  problems: Problems,
  longest: number,
): string[] | undefined {
  const value = field(rule, 'ip_ranges');
  const here = at(pointer, 'ip_ranges');
  if (value === undefined) return undefined;
  if (value === null) {
    problems.add(
      here,
      'null_not_allowed',
      () => 'ip_ranges must be an array; for any address, omit it or leave it empty.',
    );
    return undefined;
  }
  if (!Array.isArray(value)) {
    problems.add(here, 'not_an_array', () => `ip_ranges must be an array of strings, got ${show(value)}.`);
    return undefined;
  }
  const family = protocol === undefined ? undefined : onlyFamily[protocol];
  const ranges: string[] = [];
  for (const [index, entry] of (value as readonly unknown[]).entries()) {
    if (typeof entry !== 'string') {
      problems.add(at(here, index), 'not_a_string', () => `An address range must be a string, got ${show(entry)}.`);
      continue;
    }
    if (entry.length > longest) {
      problems.add(at(here, index), 'address_invalid', () => `${show(entry)} is longer than ${longest} characters.`);
      continue;
    }
    const range = parseRange(entry);
    if ('fault' in range) {
      problems.add(at(here, index), range.fault, () => `${show(entry)} ${range.reason}.`);
    } else if (family !== undefined && range.family !== family) {
      problems.add(
        at(here, index),
        'family_contradiction',
        () => `${show(entry)} is IPv${range.family}, but the rule's protocol is ${protocol}.`,
      );
    } else {
      ranges.push(entry);
    }
  }
  return ranges;
}

/** Nothing where rules have no such field here: then it was reported as unknown. */
function readRulePeers(
  rule: JsonObject,
  pointer: string,
  problems: Problems,
  { peersPerRule, knowsDevice }: RuleChecks,
): Peer[] | undefined {
  const value = field(rule, 'peers');
  if (value === undefined || peersPerRule === undefined) return undefined;
  return readPeers(value, at(pointer, 'peers'), problems, { most: peersPerRule, knowsDevice });
}

/**
 * Returns a check whether a rule must be rejected because it has expired. A rule that is already stored unchanged may
 * stay.
 */
function expiryCheck({ now, storedRules = () => [] }: RuleChecks): (rule: SecurityRule) => boolean {
  let known: ReadonlySet<string> | undefined;
  return (rule) => {
    if (now === undefined || !isExpired(rule, now)) return false;
    known ??= new Set(
      storedRules()
        .filter(({ expires_at }) => expires_at !== undefined)
        .map(ruleIdentity),
    );
    const stored = known;
    return !normalizeRule(rule).every((part) => stored.has(ruleIdentity(part)));
  };
}

function readExpiry(rule: JsonObject, pointer: string, problems: Problems): string | undefined {
  const value = field(rule, 'expires_at');
  const here = at(pointer, 'expires_at');
  if (value === undefined) return undefined;
  if (value === null) {
    problems.add(here, 'null_not_allowed', () => 'expires_at must be a time; for a rule without an end, omit it.');
  } else if (typeof value !== 'string') {
    problems.add(here, 'not_a_string', () => `expires_at must be a string, got ${show(value)}.`);
  } else if (value.length > longestTimestamp || !isTimestamp(value)) {
    const form = 'a time like 2030-01-31T12:00:00Z';
    problems.add(here, 'not_a_timestamp', () => `expires_at must be ${form}, got ${show(value)}.`);
  } else return value;
  return undefined;
}

function readRule(
  value: unknown,
  pointer: string,
  problems: Problems,
  checks: RuleChecks,
  isTooLate: (rule: SecurityRule) => boolean,
): SecurityRule | undefined {
  const { rangeLength = Number.POSITIVE_INFINITY, peersPerRule } = checks;
  if (!isObject(value)) {
    problems.add(pointer, 'not_an_object', () => `A rule must be an object, got ${show(value)}.`);
    return undefined;
  }
  const before = problems.count;
  refuseUnknownFields(value, peersPerRule === undefined ? ruleFields : ruleFieldsWithPeers, pointer, problems);
  const ip_protocol = readProtocol(value, pointer, problems);
  const from_port = readPort(value, 'from_port', pointer, problems);
  const to_port = readPort(value, 'to_port', pointer, problems);
  if (from_port !== undefined && to_port !== undefined) checkPorts(ip_protocol, from_port, to_port, pointer, problems);
  const ip_ranges = readRanges(value, ip_protocol, pointer, problems, rangeLength);
  const peers = readRulePeers(value, pointer, problems, checks);
  const expires_at = readExpiry(value, pointer, problems);
  const description = readText(value, 'description', descriptionRule, problems, pointer);
  if (problems.count > before || ip_protocol === undefined || from_port === undefined || to_port === undefined)
    return undefined;
  const rule: SecurityRule = {
    ip_protocol,
    from_port,
    to_port,
    ...(ip_ranges && { ip_ranges }),
    ...(peers && { peers }),
    ...(expires_at !== undefined && { expires_at }),
    ...(description !== undefined && { description }),
  };
  if (isTooLate(rule)) {
    problems.add(at(pointer, 'expires_at'), 'expiry_past', () => 'expires_at must be in the future.');
  }
  return rule;
}

/** The ranges of all rules, of whatever form they are. */
function countWritten(rules: readonly unknown[]): number {
  let count = 0;
  for (const rule of rules) {
    const ranges = isObject(rule) ? field(rule, 'ip_ranges') : undefined;
    if (Array.isArray(ranges)) count += ranges.length;
  }
  return count;
}

export const tooManyRanges = (pointer: string, count: number, problems: Problems, { rangesPerGroup }: Limits): void =>
  problems.add(
    pointer,
    'too_many_ranges',
    () => `A group may have at most ${rangesPerGroup} address ranges, got ${count}.`,
  );

/**
 * Reads the rules of one direction out of any JSON value: every problem goes to `problems`; the answer is normalized,
 * and complete only where no problem was added.
 */
export function readRules(
  value: unknown,
  pointer: string,
  problems: Problems,
  limits: RuleChecks = defaultLimits,
): readonly StoredRule[] {
  if (value === null) {
    problems.add(pointer, 'null_not_allowed', () => 'The rules must be an array; an empty one is allowed.');
    return [];
  }
  if (!Array.isArray(value)) {
    problems.add(pointer, 'not_an_array', () => `The rules must be an array, got ${show(value)}.`);
    return [];
  }
  const tooMany = (count: number): void =>
    problems.add(
      pointer,
      'too_many_rules',
      () => `A group may have at most ${limits.rulesPerDirection} rules in each direction, got ${count}.`,
    );
  // What is too much is not looked at one by one.
  if (value.length > limits.rulesPerDirection) {
    tooMany(value.length);
    return [];
  }
  const written = countWritten(value);
  if (written > limits.rangesPerGroup) {
    tooManyRanges(pointer, written, problems, limits);
    return [];
  }
  const rules: SecurityRule[] = [];
  const isTooLate = expiryCheck(limits);
  for (const [index, entry] of (value as readonly unknown[]).entries()) {
    const rule = readRule(entry, at(pointer, index), problems, limits, isTooLate);
    if (rule !== undefined) rules.push(rule);
  }
  const normalized = normalizeRules(rules);
  if (normalized.length > limits.rulesPerDirection) tooMany(normalized.length);
  return normalized;
}
