/** Owns policy files: which groups and devices they name, and what they say about them. */
import type { GroupInput } from '../../policy/group.ts';
import { isObject } from '../../policy/json.ts';
import { usageError } from '../terminal/exit.ts';
import { problemLines, readWritten } from '../group/text.ts';
import type { InputDocument } from '../terminal/input-file.ts';

/** Whose group it is: the default group, one of the organization, or one of the person who applies the file. */
export type Scope = 'default' | 'organization' | 'me';

export interface DesiredGroup {
  readonly where: string;
  readonly scope: Scope;
  /** The group that the file means, where it was exported with its id. */
  readonly id?: string;
  readonly name: string;
  readonly description?: string;
  readonly inbound: NonNullable<GroupInput['inbound_rules']>;
  readonly outbound: NonNullable<GroupInput['outbound_rules']>;
}

export interface DesiredDevice {
  readonly where: string;
  /** Host name or id. */
  readonly device: string;
  /** Names or ids; none means that the default group applies. */
  readonly groups: readonly string[];
}

export interface Desired {
  readonly groups: readonly DesiredGroup[];
  readonly devices: readonly DesiredDevice[];
}

const topFields = ['groups', 'devices'];

/** Reads every document; all that is wrong anywhere is reported at once. */
export function readPolicy(documents: readonly InputDocument[]): Desired {
  const problems: string[] = [];
  const groups: DesiredGroup[] = [];
  const devices: DesiredDevice[] = [];
  const report = (where: string, lines: readonly string[]): void => {
    for (const line of lines) problems.push(`${where}: ${line}`);
  };
  for (const { where, value } of documents) {
    if (!isObject(value)) {
      report(where, ['a policy is a mapping with `groups` and `devices`']);
      continue;
    }
    if (isLoneGroup(value)) {
      readGroupEntry(value, where, groups, report);
      continue;
    }
    for (const name of Object.keys(value)) {
      if (!topFields.includes(name))
        report(where, [`there is no field \`${name}\` here; known: ${topFields.join(', ')}`]);
    }
    entries(value['groups'], `${where} groups`, report).forEach((entry, index) =>
      readGroupEntry(entry, `${where} groups[${index}]`, groups, report),
    );
    entries(value['devices'], `${where} devices`, report).forEach((entry, index) =>
      readDeviceEntry(entry, `${where} devices[${index}]`, devices, report),
    );
  }
  for (const line of [
    ...twice(groups, ({ scope, name, id }) => `${scope} group ${id ?? name}`),
    ...twice(devices, ({ device }) => `device ${device}`),
  ]) {
    problems.push(line);
  }
  if (problems.length > 0) throw usageError('the policy is not valid:', problems);
  return { groups, devices };
}

type Report = (where: string, lines: readonly string[]) => void;

/** A record as `group show -o yaml` prints it, or one group in the short form. */
const isLoneGroup = (value: Readonly<Record<string, unknown>>): boolean =>
  ['group_name', 'name', 'default', 'is_default'].some((field) => Object.hasOwn(value, field));

function entries(value: unknown, where: string, report: Report): readonly unknown[] {
  if (value === undefined || value === null) return [];
  if (Array.isArray(value)) return value;
  report(where, ['must be a list']);
  return [];
}

function readGroupEntry(entry: unknown, where: string, groups: DesiredGroup[], report: Report): void {
  if (!isObject(entry)) return report(where, ['a group is a mapping with `name`, `inbound` and `outbound`']);
  const { owner, default: marked, ...rest } = entry;
  const isDefault = marked === true || entry['is_default'] === true;
  if (marked !== undefined && typeof marked !== 'boolean') report(where, ['default must be true or false']);
  if (owner !== undefined && owner !== 'organization' && owner !== 'me') {
    report(where, ['owner must be `organization` or `me`']);
  }
  let read: ReturnType<typeof readWritten>;
  try {
    read = readWritten(isDefault ? { name: 'default', ...rest } : rest, 'create');
  } catch (error) {
    return report(where, [error instanceof Error ? error.message : String(error)]);
  }
  report(where, problemLines(read));
  const { group_name = '', group_description, inbound_rules = [], outbound_rules = [] } = read.group;
  groups.push({
    where,
    scope: isDefault ? 'default' : owner === 'me' || entry['user_id'] !== undefined ? 'me' : 'organization',
    ...(typeof entry['id'] === 'string' && { id: entry['id'].toLowerCase() }),
    name: isDefault && !Object.hasOwn(rest, 'name') && !Object.hasOwn(rest, 'group_name') ? '' : group_name,
    ...(group_description !== undefined && { description: group_description }),
    inbound: inbound_rules,
    outbound: outbound_rules,
  });
}

function readDeviceEntry(entry: unknown, where: string, devices: DesiredDevice[], report: Report): void {
  if (!isObject(entry)) return report(where, ['a device is a mapping with `device` and `groups`']);
  const { device, groups, ...rest } = entry;
  for (const name of Object.keys(rest)) report(where, [`there is no field \`${name}\` here; known: device, groups`]);
  if (typeof device !== 'string' || device === '') return report(where, ['`device` must be a host name or an id']);
  const names = groups ?? [];
  if (!Array.isArray(names) || !names.every((name): name is string => typeof name === 'string')) {
    return report(where, ['`groups` must be a list of names or ids']);
  }
  devices.push({ where, device, groups: names });
  return undefined;
}

function twice<T extends { readonly where: string }>(
  things: readonly T[],
  nameOf: (thing: T) => string,
): readonly string[] {
  const first = new Map<string, string>();
  return things.flatMap((thing) => {
    const name = nameOf(thing);
    const before = first.get(name);
    first.set(name, before ?? thing.where);
    return before === undefined ? [] : [`${thing.where}: ${name} stands in ${before} already`];
  });
}
