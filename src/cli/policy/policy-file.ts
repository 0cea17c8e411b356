/** Owns the reading of policy files: the groups and devices that they name, and their content. */
import type { GroupInput } from '../../policy/group.ts';
import { isUuid } from '../../policy/ids.ts';
import { isObject, type JsonObject } from '../../policy/json.ts';
import { parseLabel } from '../../policy/label.ts';
import type { PolicyTest } from '../../policy/policy-test/policy-test.ts';
import { usageError } from '../terminal/exit.ts';
import type { PeerNames } from '../group/peer-text.ts';
import { problemLine, readWritten } from '../group/written-group.ts';
import type { Input, InputDocument } from '../terminal/input-file.ts';
import type { YamlPath } from '../terminal/read-yaml.ts';
import { readWrittenTest } from './written-test.ts';

/** Whose group it is: the default group, one of the organization, or one of the person who applies the file. */
export type Scope = 'default' | 'organization' | 'me';

export interface DesiredGroup {
  /** File and line. */
  readonly where: string;
  readonly scope: Scope;
  /** The group that the file means, where it was exported with its id. */
  readonly id?: string;
  readonly name: string;
  readonly description?: string;
  readonly inbound: NonNullable<GroupInput['inbound_rules']>;
  readonly outbound: NonNullable<GroupInput['outbound_rules']>;
  readonly appliesTo: NonNullable<GroupInput['applies_to']>;
  readonly guardrail?: NonNullable<GroupInput['guardrail']>;
  readonly mode: NonNullable<GroupInput['mode']>;
}

export interface DesiredDevice {
  readonly where: string;
  /** Host name or id; where `id` is given, what the file calls it. */
  readonly device: string;
  /** The one device that the file means, whatever it is called now. */
  readonly id?: string;
  /** Names or ids; none means that the default group applies. Absent: as they are. */
  readonly groups?: readonly string[];
  /** Absent: as they are. */
  readonly labels?: readonly string[];
}

export interface DesiredTest {
  readonly where: string;
  readonly test: PolicyTest;
}

export interface Desired {
  readonly groups: readonly DesiredGroup[];
  readonly devices: readonly DesiredDevice[];
  /** Absent where no file has `tests`: then the stored ones stay, also with `--prune`. */
  readonly tests?: readonly DesiredTest[];
}

const topFields = ['groups', 'devices', 'tests'];

/** One entry of a file, and the function that reports its problems. */
interface Entry {
  readonly value: unknown;
  readonly where: string;
  readonly report: (path: YamlPath, detail: string, words?: string) => void;
}

/** Reads every document; all that is wrong anywhere is reported at once. */
export function readPolicy({ documents, faults }: Input, names: PeerNames): Desired {
  const problems: string[] = [...faults];
  const groups: DesiredGroup[] = [];
  const devices: DesiredDevice[] = [];
  const tests: DesiredTest[] = [];
  let hasTests = false;
  const entryAt = ({ value, place }: InputDocument, path: YamlPath, entry: unknown = value): Entry => ({
    value: entry,
    where: place(path),
    report: (inside, detail, words) =>
      problems.push(
        problemLine({ path: inside, detail, ...(words !== undefined && { words }) }, place([...path, ...inside])),
      ),
  });
  for (const document of documents) {
    const { value } = document;
    const whole = entryAt(document, []);
    if (!isObject(value)) whole.report([], 'a policy is a mapping with `groups`, `devices` and `tests`');
    else if (isLoneGroup(value)) readGroupEntry(whole, groups, names);
    else {
      for (const name of Object.keys(value)) {
        if (!topFields.includes(name))
          whole.report([name], `unknown field \`${name}\`; known fields: ${topFields.join(', ')}`);
      }
      for (const [path, entry] of entries(value, 'groups', whole))
        readGroupEntry(entryAt(document, path, entry), groups, names);
      for (const [path, entry] of entries(value, 'devices', whole))
        readDeviceEntry(entryAt(document, path, entry), devices);
      hasTests ||= (value['tests'] ?? undefined) !== undefined;
      for (const [path, entry] of entries(value, 'tests', whole))
        readTestEntry(entryAt(document, path, entry), tests, names);
    }
  }
  problems.push(
    ...twice(groups, ({ scope, name, id }) => `${scope} group ${id ?? name}`),
    ...twice(devices, ({ id, device }) => `device ${id ?? device}`),
    ...twice(tests, ({ test }) => `test ${test.name}`),
  );
  if (problems.length > 0) throw usageError('the policy is not valid:', problems);
  return { groups, devices, ...(hasTests && { tests }) };
}

/** A record as `group show -o yaml` prints it, or one group in the short form. */
const isLoneGroup = (value: JsonObject): boolean =>
  ['group_name', 'name', 'default', 'is_default'].some((field) => Object.hasOwn(value, field));

function entries(policy: JsonObject, name: string, { report }: Entry): readonly (readonly [YamlPath, unknown])[] {
  const value = policy[name];
  if (value === undefined || value === null) return [];
  if (Array.isArray(value)) return value.map((entry, index) => [[name, index], entry]);
  report([name], `\`${name}\` must be a list`);
  return [];
}

function readGroupEntry({ value, where, report }: Entry, groups: DesiredGroup[], names: PeerNames): void {
  if (!isObject(value)) return report([], 'a group is a mapping with `name`, `inbound` and `outbound`');
  const { owner, default: marked, ...rest } = value;
  const isDefault = marked === true || value['is_default'] === true;
  if (marked !== undefined && typeof marked !== 'boolean') report(['default'], '`default` must be true or false');
  if (owner !== undefined && owner !== 'organization' && owner !== 'me') {
    report(['owner'], '`owner` must be `organization` or `me`');
  }
  const read = readWritten(isDefault ? { name: 'default', ...rest } : rest, 'create', names);
  for (const { path, detail, words } of read.problems) report(path, detail, words);
  const { group_name = '', group_description, inbound_rules = [], outbound_rules = [] } = read.group;
  const { applies_to = [], guardrail, mode = 'enforce' } = read.group;
  groups.push({
    where,
    scope: isDefault ? 'default' : owner === 'me' || value['user_id'] !== undefined ? 'me' : 'organization',
    ...(typeof value['id'] === 'string' && { id: value['id'].toLowerCase() }),
    name: isDefault && !Object.hasOwn(rest, 'name') && !Object.hasOwn(rest, 'group_name') ? '' : group_name,
    ...(group_description !== undefined && { description: group_description }),
    inbound: inbound_rules,
    outbound: outbound_rules,
    appliesTo: applies_to,
    ...(guardrail !== undefined && { guardrail }),
    mode,
  });
  return undefined;
}

function readDeviceEntry({ value, where, report }: Entry, devices: DesiredDevice[]): void {
  if (!isObject(value)) return report([], 'a device is a mapping with `device`, `id`, `groups` and `labels`');
  const { id, device = id, groups, labels, ...rest } = value;
  for (const name of Object.keys(rest))
    report([name], `unknown field \`${name}\`; known fields: device, id, groups, labels`);
  if (id !== undefined && !isUuid(id)) return report(['id'], '`id` must be the full id of a device');
  if (typeof device !== 'string' || device === '') return report(['device'], '`device` must be a host name or an id');
  // A file that says nothing but the device means the default group; one that says only labels means only these.
  const names = groups ?? (labels === undefined ? [] : undefined);
  if (!isTexts(names)) return report(['groups'], '`groups` must be a list of names or ids');
  if (!isTexts(labels)) return report(['labels'], '`labels` must be a list of labels');
  for (const [index, text] of (labels ?? []).entries()) {
    const label = parseLabel(text);
    if (typeof label !== 'string') report(['labels', index], `the label ${JSON.stringify(text)} ${label.reason}`);
  }
  devices.push({
    where,
    device,
    ...(id !== undefined && { id: id.toLowerCase() }),
    ...(names !== undefined && { groups: names }),
    ...(labels !== undefined && { labels: [...new Set(labels)].toSorted() }),
  });
  return undefined;
}

function readTestEntry({ value, where, report }: Entry, tests: DesiredTest[], names: PeerNames): void {
  const { test, problems } = readWrittenTest(value, names);
  for (const { path, detail } of problems) report(path, detail);
  if (test !== undefined) tests.push({ where, test });
}

const isTexts = (value: unknown): value is readonly string[] | undefined =>
  value === undefined || (Array.isArray(value) && value.every((entry) => typeof entry === 'string'));

function twice<T extends { readonly where: string }>(
  things: readonly T[],
  nameOf: (thing: T) => string,
): readonly string[] {
  const first = new Map<string, string>();
  return things.flatMap((thing) => {
    const name = nameOf(thing);
    const before = first.get(name);
    first.set(name, before ?? thing.where);
    return before === undefined ? [] : [`${thing.where}: ${name} is already in ${before}`];
  });
}
