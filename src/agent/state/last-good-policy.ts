/** Owns the last good policy, saved for the next start: what it holds, its text, and whether a text can be trusted. */
import { createHash } from 'node:crypto';
import { parseInterfaceName, type InterfaceName } from '../../nft/names.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { parseGroupId } from '../../policy/ids.ts';
import type { Limits } from '../../policy/limits.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
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
}

/** Thrown where a text is no saved policy: half written, changed by hand, or of another version. */
export class UnusablePolicy extends Error {
  readonly code = 'unusable_policy';
}

const format = 1;

/** The server's own limits may be wider than the usual ones; what it gave us was within them. */
export const noLimits: Limits = {
  rulesPerDirection: Number.POSITIVE_INFINITY,
  rangesPerGroup: Number.POSITIVE_INFINITY,
  nameLength: Number.POSITIVE_INFINITY,
  descriptionLength: Number.POSITIVE_INFINITY,
};

const digest = (content: string): string => createHash('sha256').update(content).digest('hex');

/** Two lines: the checksum of the second, and the policy itself. */
export function printLastGoodPolicy({ policy, ...rest }: LastGoodPolicy): string {
  const groups = policy.groups.map(({ id, name, inbound, outbound }) => ({ id, name, inbound, outbound }));
  const content = JSON.stringify({ format, ...rest, source: policy.source, groups });
  return `sha256 ${digest(content)}\n${content}\n`;
}

export function parseLastGoodPolicy(text: string): LastGoodPolicy {
  const [head = '', content = '', ...rest] = text.split('\n');
  if (rest.length !== 1 || rest[0] !== '') throw new UnusablePolicy('it is not complete');
  if (head !== `sha256 ${digest(content)}`) throw new UnusablePolicy('its checksum does not match');
  const value: unknown = JSON.parse(content);
  if (!isObject(value) || field(value, 'format') !== format) throw new UnusablePolicy('it is of another version');
  try {
    return readRecord(value);
  } catch (error) {
    throw new UnusablePolicy(error instanceof Error ? error.message : String(error), { cause: error });
  }
}

function readRecord(value: JsonObject): LastGoodPolicy {
  const [source, groups, revision] = [field(value, 'source'), field(value, 'groups'), field(value, 'revision')];
  if ((source !== 'default' && source !== 'list') || !Array.isArray(groups))
    throw new UnusablePolicy('it names no groups');
  if (typeof revision !== 'number') throw new UnusablePolicy('it names no revision');
  return {
    policy: { source, groups: groups.map(readGroup) },
    revision,
    interface: parseInterfaceName(field(value, 'interface')),
    neighbourDiscovery: field(value, 'neighbourDiscovery') === true,
  };
}

function readGroup(value: unknown): PolicyGroup {
  if (!isObject(value)) throw new UnusablePolicy('a group is no object');
  const name = field(value, 'name');
  return {
    id: parseGroupId(field(value, 'id')),
    name: typeof name === 'string' ? name : '',
    inbound: soundRules(field(value, 'inbound')),
    outbound: soundRules(field(value, 'outbound')),
  };
}

/** Rules from outside, all of them sound; throws with the first problem. A rule that is not understood is never skipped. */
export function soundRules(value: unknown): PolicyGroup['inbound'] {
  const problems = new Problems();
  const rules = readRules(value, '', problems, noLimits);
  const [problem] = problems.problems;
  if (problem !== undefined) throw new UnusablePolicy(`${problem.pointer}: ${problem.detail}`);
  return rules;
}
