/** Owns the last good policy that is saved for the next start: its content, its text, and the check of a text. */
import { sha256Hex } from '#sha256';
import { parseInterfaceName, type InterfaceName } from '../../nft/names.ts';
import type { EffectivePolicy, NextPolicy } from '../../policy/effective.ts';
import { parseGroupId } from '../../policy/ids.ts';
import type { Limits } from '../../policy/limits.ts';
import { readIsolation, writeIsolation } from './saved-isolation.ts';
import { readMembers, writeMembers } from './saved-members.ts';
import { UnusablePolicy } from './unusable-policy.ts';
import type { GuardrailKind, Members, PolicyGroup, StoredRule } from '../../policy/rule.ts';
import { Problems } from '../../policy/problem.ts';
import { field, isObject, type JsonObject } from '../../policy/json.ts';
import { readRules } from '../../policy/validate.ts';

/** A policy that was put in force, and where: enough to put it in force again without the server. */
export interface LastGoodPolicy {
  readonly policy: EffectivePolicy;
  /** Newest revision of the organization that it reflects. */
  readonly revision: number;
  readonly interface: InterfaceName;
  readonly neighbourDiscovery: boolean;
  /** The moment that it was of, in milliseconds since the epoch: what the kernel had then depends on which rules had expired. */
  readonly at?: number;
}

/**
 * Policies that say all in ranges are written as they always were. One with guardrails, or with rules that name devices or expire, has a
 * format of its own, and so has one with isolated devices: an agent that does not know these refuses it, and never reads the rest without them.
 * So has one that another follows by time alone, because a change is being tried.
 */
const plainFormat = 1;
const namesFormat = 2;
const isolationFormat = 3;
const trialFormat = 4;
const formats: ReadonlySet<unknown> = new Set([plainFormat, namesFormat, isolationFormat, trialFormat]);

const formatOf = (policy: EffectivePolicy): number =>
  policy.next !== undefined
    ? trialFormat
    : policy.isolation !== undefined
      ? isolationFormat
      : isPlain(policy)
        ? plainFormat
        : namesFormat;

/** The server's own limits may be wider than the usual ones; what it gave us was within them. */
const noLimits: Limits = {
  rulesPerDirection: Number.POSITIVE_INFINITY,
  rangesPerGroup: Number.POSITIVE_INFINITY,
  nameLength: Number.POSITIVE_INFINITY,
  descriptionLength: Number.POSITIVE_INFINITY,
  peersPerRule: Number.POSITIVE_INFINITY,
  selectorsPerGroup: Number.POSITIVE_INFINITY,
};

const allGroups = ({ groups, guardrails }: EffectivePolicy): readonly PolicyGroup[] => [
  ...groups,
  ...(guardrails?.forbid ?? []),
  ...(guardrails?.require ?? []),
];

const isPlain = (policy: EffectivePolicy): boolean =>
  policy.guardrails === undefined &&
  allGroups(policy).every(({ inbound, outbound }) =>
    [...inbound, ...outbound].every(({ peers, expires_at }) => peers === undefined && expires_at === undefined),
  );

/** Writes the addresses of a rule's peers with the rule: without the server, there is no other source for them. */
function writeRule(stored: StoredRule): object {
  const { members, expired: _, ...rule } = stored;
  if (members === undefined) return rule;
  return { ...rule, members: writeMembers(members) };
}

const writeGroup = ({ id, name, inbound, outbound }: PolicyGroup): object => ({
  id,
  name,
  inbound: inbound.map(writeRule),
  outbound: outbound.map(writeRule),
});

const writeGuardrails = (guardrails: NonNullable<EffectivePolicy['guardrails']>): object => ({
  forbid: guardrails.forbid.map(writeGroup),
  require: guardrails.require.map(writeGroup),
});

const fingerprints = new WeakMap<EffectivePolicy, string>();

/** Equal for policies whose groups say the same, whatever they are called and whichever of their rules have expired. */
export function policyFingerprint(policy: EffectivePolicy): string {
  const known = fingerprints.get(policy);
  if (known !== undefined) return known;
  const { groups, guardrails, isolation } = policy;
  const nameless = (group: PolicyGroup): object => writeGroup({ ...group, name: '' });
  const all = [groups, guardrails?.forbid ?? [], guardrails?.require ?? []].map((some) => some.map(nameless));
  const fingerprint = sha256Hex(JSON.stringify([all, isolation && writeIsolation(isolation)]));
  fingerprints.set(policy, fingerprint);
  return fingerprint;
}

const writePolicy = ({ source, groups, guardrails, isolation, next }: EffectivePolicy): object => ({
  source,
  groups: groups.map(writeGroup),
  ...(guardrails && { guardrails: writeGuardrails(guardrails) }),
  ...(isolation && { isolation: writeIsolation(isolation) }),
  ...(next && { next: { at: next.at, policy: writePolicy(next.policy) } }),
});

/** Two lines: the checksum of the second, and the policy itself. */
export function printLastGoodPolicy({ policy, ...rest }: LastGoodPolicy): string {
  const content = JSON.stringify({
    format: formatOf(policy),
    ...rest,
    ...writePolicy(policy),
  });
  return `sha256 ${sha256Hex(content)}\n${content}\n`;
}

export function parseLastGoodPolicy(text: string): LastGoodPolicy {
  const [head = '', content = '', ...rest] = text.split('\n');
  if (rest.length !== 1 || rest[0] !== '') throw new UnusablePolicy('it is not complete');
  if (head !== `sha256 ${sha256Hex(content)}`) throw new UnusablePolicy('its checksum does not match');
  const value: unknown = JSON.parse(content);
  const said = isObject(value) ? field(value, 'format') : undefined;
  if (!isObject(value) || !formats.has(said)) throw new UnusablePolicy('it is of another version');
  try {
    return readRecord(value);
  } catch (error) {
    throw new UnusablePolicy(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

function readRecord(value: JsonObject): LastGoodPolicy {
  const [revision, at] = [field(value, 'revision'), field(value, 'at')];
  if (typeof revision !== 'number') throw new UnusablePolicy('it has no revision');
  return {
    policy: readPolicy(value),
    revision,
    interface: parseInterfaceName(field(value, 'interface')),
    neighbourDiscovery: field(value, 'neighbourDiscovery') === true,
    ...(typeof at === 'number' && { at }),
  };
}

function readPolicy(value: JsonObject): EffectivePolicy {
  const [source, guardrails] = [field(value, 'source'), field(value, 'guardrails')];
  const [isolation, next] = [field(value, 'isolation'), field(value, 'next')];
  if (source !== 'default' && source !== 'list') throw new UnusablePolicy('it has no groups');
  return {
    source,
    groups: readGroups(field(value, 'groups')),
    ...(guardrails !== undefined && { guardrails: readGuardrails(guardrails) }),
    ...(isolation !== undefined && { isolation: readIsolation(isolation) }),
    ...(next !== undefined && { next: readNext(next) }),
  };
}

function readNext(value: unknown): NextPolicy {
  const [at, policy] = isObject(value) ? [field(value, 'at'), field(value, 'policy')] : [];
  if (typeof at !== 'number' || !isObject(policy)) throw new UnusablePolicy('it does not say what follows it');
  return { at, policy: readPolicy(policy) };
}

function readGuardrails(value: unknown): NonNullable<EffectivePolicy['guardrails']> {
  if (!isObject(value)) throw new UnusablePolicy('its guardrails are not an object');
  const of = (guardrail: GuardrailKind): readonly PolicyGroup[] =>
    readGroups(field(value, guardrail)).map((group) => ({ ...group, guardrail }));
  return { forbid: of('forbid'), require: of('require') };
}

function readGroups(value: unknown): readonly PolicyGroup[] {
  if (!Array.isArray(value)) throw new UnusablePolicy('it has no groups');
  return value.map(readGroup);
}

function readGroup(value: unknown): PolicyGroup {
  if (!isObject(value)) throw new UnusablePolicy('a group is not an object');
  const name = field(value, 'name');
  return {
    id: parseGroupId(field(value, 'id')),
    name: typeof name === 'string' ? name : '',
    inbound: readSavedRules(field(value, 'inbound')),
    outbound: readSavedRules(field(value, 'outbound')),
  };
}

/** Rules as they were saved: those that name devices have the addresses of these beside them. */
function readSavedRules(value: unknown): PolicyGroup['inbound'] {
  if (!Array.isArray(value)) return soundRules(value);
  const members: (Members | undefined)[] = [];
  const written = (value as readonly unknown[]).map((rule) => {
    if (!isObject(rule)) return rule;
    const { members: texts, ...rest } = rule;
    members.push(texts === undefined ? undefined : readMembers(texts));
    return rest;
  });
  const rules = soundRules(written);
  if (rules.length !== written.length) throw new UnusablePolicy('a rule is not in stored form');
  return rules.map((rule, i) => {
    const own = members[i];
    if ((rule.peers === undefined) !== (own === undefined)) throw new UnusablePolicy('a rule has no addresses');
    return own === undefined ? rule : { ...rule, members: own };
  });
}

/** Rules from outside, all of them sound; throws with the first problem. A rule that is not understood is never skipped. */
export function soundRules(value: unknown): PolicyGroup['inbound'] {
  const problems = new Problems();
  const rules = readRules(value, '', problems, noLimits);
  const [problem] = problems.problems;
  if (problem !== undefined) throw new UnusablePolicy(`${problem.pointer}: ${problem.detail}`);
  return rules;
}
