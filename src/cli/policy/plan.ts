/** Owns the difference between a policy file and the server's state: the steps that lead from one to the other. */
import type { Device } from '../../api/device.ts';
import type { AddSecurityGroup, SecurityGroup, UpdateSecurityGroup } from '../../api/group.ts';
import type { Direction, Selector, StoredRule } from '../../policy/rule.ts';
import { isUuid } from '../../policy/ids.ts';
import { ruleIdentity } from '../../policy/rule-identity/rule-identity.ts';
import { expiryOf } from '../../policy/time/policy-at.ts';
import type { PolicyTest } from '../../policy/policy-test/policy-test.ts';
import { namesOfDevice, pickDevice } from '../lookup/device.ts';
import { namesOfGroup, pickGroup } from '../lookup/group.ts';
import { couldMean } from '../../client/words/naming.ts';
import { namedLine } from '../session/find-one.ts';
import { CliError, usageError } from '../terminal/exit.ts';
import { peerNames, type PeerNames } from '../group/peer-text.ts';
import { selectorsInWords } from '../group/text.ts';
import { testSteps, type TestStep } from './plan-tests.ts';
import type { Desired, DesiredDevice, DesiredGroup, Scope } from './policy-file.ts';
import type { Line } from '../../client/words/changes.ts';
import { ruleChanges, ruleWords } from '../../client/words/rule.ts';
import { printable } from '../../policy/names/printable.ts';
import type { Paint } from '../terminal/screen.ts';

export interface CurrentPolicy {
  readonly groups: readonly SecurityGroup[];
  readonly devices: readonly Device[];
  /** The stored policy tests; empty where the files have none. */
  readonly tests: readonly PolicyTest[];
  /** The user who applies the policy. */
  readonly me: string;
}

/** A group that a device is to have: there already, or made by an earlier step. */
export type GroupReference = { readonly id: string } | { readonly scope: Scope; readonly name: string };

interface Common {
  readonly name: string;
  /** File and line; absent for what no file names. */
  readonly where?: string;
  readonly lines: readonly Line[];
}
export type Step =
  | TestStep
  | (Common & {
      readonly action: 'create';
      readonly kind: 'group';
      readonly scope: Scope;
      readonly body: AddSecurityGroup;
    })
  | (Common & {
      readonly action: 'update';
      readonly kind: 'group';
      readonly group: SecurityGroup;
      readonly body: UpdateSecurityGroup;
    })
  | (Common & {
      readonly action: 'update';
      readonly kind: 'device';
      readonly device: Device;
      /** Where the file names the device by a host name alone, which may be another device's by now. */
      readonly byName?: string;
      /** Absent: as they are. */
      readonly groups?: readonly GroupReference[];
      readonly labels?: readonly string[];
    })
  | (Common & { readonly action: 'delete'; readonly kind: 'group'; readonly group: SecurityGroup });

const scopeOf = (group: SecurityGroup, me: string): Scope | 'other' => {
  if (group.is_default === true) return 'default';
  if (group.user_id === undefined) return 'organization';
  return group.user_id === me ? 'me' : 'other';
};

/** A rule that somebody granted for a while. It ends by itself, so files that do not name it leave it alone. */
export interface KeptRule {
  readonly group: string;
  readonly line: string;
}

export interface PolicyPlan {
  readonly steps: readonly Step[];
  /** Rules that stay although the files do not name them. */
  readonly kept: readonly KeptRule[];
}

export interface PlanOptions {
  readonly prune: boolean;
  /** In milliseconds since 1970: rules that have expired by then are not kept. */
  readonly now: number;
}

/** The steps, groups first, so that devices can have them, and deletions last, when nothing has them any more. */
export function planPolicy(desired: Desired, actual: CurrentPolicy, { prune, now }: PlanOptions): PolicyPlan {
  const faults: CliError[] = [];
  const found = new Map(desired.groups.map((group) => [group, attempt(group, () => findGroup(group, actual), faults)]));
  const names = peerNames(actual.devices);
  const kept: KeptRule[] = [];
  const groups = desired.groups.flatMap((wanted) => {
    const group = found.get(wanted);
    const granted = grantedRules(group, wanted, now);
    if (group !== undefined) kept.push(...keptRules(group, granted, names));
    const whole = {
      ...wanted,
      inbound: [...wanted.inbound, ...granted.inbound],
      outbound: [...wanted.outbound, ...granted.outbound],
    };
    return attempt(wanted, () => groupStep(whole, group, names), faults) ?? [];
  });
  const devices = desired.devices.flatMap(
    (device) => attempt(device, () => deviceStep(device, desired, found, actual), faults) ?? [],
  );
  faults.push(...sameDeviceTwice(desired, actual));
  const [fault] = faults;
  if (fault !== undefined) {
    throw new CliError(
      fault.exit,
      faults.every(({ exit }) => exit === 'notFound')
        ? 'the files refer to things that do not exist:'
        : 'the files have errors:',
      faults.flatMap(({ message, details }) => [message, ...details]),
    );
  }
  const tests = testSteps(desired.tests, actual.tests, { prune, names });
  const pruned = (prune ? unnamedGroups(desired, found, actual) : []).map((group) => {
    const granted = grantedRules(group, noRules, now);
    kept.push(...keptRules(group, granted, names));
    return pruneStep(group, granted, names);
  });
  return { steps: [...groups, ...devices, ...pruned.flat(), ...tests], kept };
}

type Rules = Pick<DesiredGroup, Direction>;
const noRules: Rules = { inbound: [], outbound: [] };

const lastingIdentity = ({ expires_at: _end, ...rule }: StoredRule): string => ruleIdentity(rule);

/** The rules of a group that expire later, and that a file does not name, with this end, another one or none. */
function grantedRules(group: SecurityGroup | undefined, named: Rules, now: number): Rules {
  const of = (direction: Direction): readonly StoredRule[] => {
    const known = new Set(named[direction].map(lastingIdentity));
    return (group?.[`${direction}_rules`] ?? []).filter(
      (rule) => (expiryOf(rule) ?? 0) > now && !known.has(lastingIdentity(rule)),
    );
  };
  return { inbound: of('inbound'), outbound: of('outbound') };
}

const keptRules = ({ group_name }: SecurityGroup, granted: Rules, names: PeerNames): readonly KeptRule[] =>
  (['inbound', 'outbound'] as const).flatMap((direction) =>
    ruleLines(direction, [], granted[direction], names).map(([, line]) => ({ group: group_name, line })),
  );

/** Entries that name one device by different words, so that each would undo the other. */
function sameDeviceTwice(desired: Desired, actual: CurrentPolicy): readonly CliError[] {
  const first = new Map<string, string>();
  return desired.devices.flatMap((entry) => {
    const device = attempt(entry, () => findDevice(entry, actual), []);
    if (device === undefined) return [];
    const before = first.get(device.id);
    first.set(device.id, before ?? entry.where);
    return before === undefined
      ? []
      : [
          usageError(
            `${entry.where}: ${printable(entry.device)} is the device ${device.id}, which is already in ${before}`,
          ),
        ];
  });
}

/** Continues after an unknown name, so that all of them are reported at once. */
function attempt<T>({ where }: { readonly where: string }, find: () => T, faults: CliError[]): T | undefined {
  try {
    return find();
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    faults.push(new CliError(error.exit, `${where}: ${error.message}`, error.details));
    return undefined;
  }
}

function findGroup({ scope, id, name }: DesiredGroup, { groups, me }: CurrentPolicy): SecurityGroup | undefined {
  const inScope = groups.filter((group) => scopeOf(group, me) === scope);
  if (scope === 'default') return inScope[0];
  const byId = inScope.find((group) => group.id === id);
  if (byId !== undefined) return byId;
  const same = inScope.filter(({ group_name }) => group_name === name);
  const [only, second] = same;
  if (second !== undefined)
    throw usageError(
      `${same.length} groups have the name ${printable(name)}; add the \`id\` of one:`,
      same.map((group) => namedLine(namesOfGroup(group))),
    );
  if (only !== undefined && id !== undefined)
    throw usageError(
      `no group has the id ${id}; the group ${printable(name)} has the id ${only.id}: correct the \`id\`, or remove it`,
    );
  return only;
}

function groupStep(desired: DesiredGroup, group: SecurityGroup | undefined, names: PeerNames): readonly Step[] {
  const { where, name, description, inbound, outbound, appliesTo, guardrail, mode } = desired;
  if (group === undefined) {
    const body = {
      group_name: name,
      group_description: description ?? '',
      inbound_rules: inbound,
      outbound_rules: outbound,
      ...(appliesTo.length > 0 && { applies_to: appliesTo }),
      ...(guardrail !== undefined && { guardrail }),
      ...(mode !== 'enforce' && { mode }),
    };
    const lines: readonly Line[] = [
      ...(guardrail === undefined ? [] : [['+', `guardrail ${guardrail}`] as const]),
      ...(mode === 'enforce' ? [] : [['+', `mode ${mode}`] as const]),
      ...selectorLines([], appliesTo),
      ...ruleLines('inbound', [], inbound, names),
      ...ruleLines('outbound', [], outbound, names),
    ];
    return [{ action: 'create', kind: 'group', where, name, scope: desired.scope, body, lines }];
  }
  if (guardrail !== group.guardrail) {
    const [is, wanted] = [group.guardrail, guardrail].map((kind) =>
      kind === undefined ? 'no guardrail' : `guardrail ${kind}`,
    );
    throw usageError(`group ${printable(group.group_name)} is ${is}, and this cannot change; the file says ${wanted}`);
  }
  const inLines = ruleLines('inbound', group.inbound_rules ?? [], inbound, names);
  const outLines = ruleLines('outbound', group.outbound_rules ?? [], outbound, names);
  const toLines = selectorLines(group.applies_to ?? [], appliesTo);
  const oldMode = group.mode ?? 'enforce';
  const renamed = name !== '' && name !== group.group_name;
  const described = description !== undefined && description !== group.group_description;
  const body: UpdateSecurityGroup = {
    ...(renamed && { group_name: name }),
    ...(described && { group_description: description }),
    ...(inLines.length > 0 && { inbound_rules: inbound }),
    ...(outLines.length > 0 && { outbound_rules: outbound }),
    ...(toLines.length > 0 && { applies_to: appliesTo }),
    ...(mode !== oldMode && { mode }),
  };
  if (Object.keys(body).length === 0) return [];
  const lines: readonly Line[] = [
    ...(renamed ? [['~', `name ${group.group_name} → ${name}`] as const] : []),
    ...(described
      ? [['~', `description ${JSON.stringify(group.group_description)} → ${JSON.stringify(description)}`] as const]
      : []),
    ...(mode === oldMode ? [] : [['~', `mode ${oldMode} → ${mode}`] as const]),
    ...toLines,
    ...inLines,
    ...outLines,
  ];
  return [{ action: 'update', kind: 'group', where, name: group.group_name, group, body, lines }];
}

function ruleLines(
  direction: Direction,
  now: readonly StoredRule[],
  then: readonly StoredRule[],
  names: PeerNames,
): readonly Line[] {
  const word = direction === 'inbound' ? 'in ' : 'out';
  const { added, removed } = ruleChanges(now, then);
  return [
    ...removed.map((rule) => ['-', `${word} ${ruleWords(direction, rule, names)}`] as const),
    ...added.map((rule) => ['+', `${word} ${ruleWords(direction, rule, names)}`] as const),
  ];
}

function selectorLines(now: readonly Selector[], then: readonly Selector[]): readonly Line[] {
  const [before, after] = [selectorsInWords(now), selectorsInWords(then)];
  return [
    ...before.filter((word) => !after.includes(word)).map((word) => ['-', `applies to ${word}`] as const),
    ...after.filter((word) => !before.includes(word)).map((word) => ['+', `applies to ${word}`] as const),
  ];
}

function deviceStep(
  desired: DesiredDevice,
  policy: Desired,
  found: ReadonlyMap<DesiredGroup, SecurityGroup | undefined>,
  actual: CurrentPolicy,
): readonly Step[] {
  const device = findDevice(desired, actual);
  const now = (device.security_groups ?? []).map((id): GroupReference => ({ id }));
  const groups =
    desired.groups === undefined
      ? now
      : [...new Set(desired.groups)].map((name) => reference(name, policy, found, actual));
  const key = (one: GroupReference): string => ('id' in one ? one.id : `${one.scope} ${one.name}`);
  const nameOf = (one: GroupReference): string =>
    'id' in one ? (actual.groups.find(({ id }) => id === one.id)?.group_name ?? one.id) : one.name;
  const [before, after] = [new Set(now.map(key)), new Set(groups.map(key))];
  const groupLines: readonly Line[] = [
    ...now.filter((one) => !after.has(key(one))).map((one) => ['-', `group ${nameOf(one)}`] as const),
    ...groups.filter((one) => !before.has(key(one))).map((one) => ['+', `group ${nameOf(one)}`] as const),
  ];
  const labelled = labelLines(device.labels ?? [], desired.labels);
  if (groupLines.length + labelled.length === 0) return [];
  return [
    {
      action: 'update',
      kind: 'device',
      where: desired.where,
      name: device.hostname || device.id,
      device,
      ...(desired.id === undefined && desired.device === device.hostname && { byName: desired.where }),
      ...(groupLines.length > 0 && { groups }),
      ...(labelled.length > 0 && { labels: desired.labels }),
      lines: [...groupLines, ...labelled],
    },
  ];
}

/** Finds the device by its id where the file has one. Then the name has no effect. */
function findDevice({ id, device: name }: DesiredDevice, { devices }: CurrentPolicy): Device {
  if (id === undefined) {
    const device = pickDevice(devices, name);
    if ([device.hostname, device.public_key, device.id].includes(isUuid(name) ? name.toLowerCase() : name))
      return device;
    // What is only an address, or part of an id, may be another device's tomorrow.
    throw usageError(
      `a file must name a device by its host name or its full id, not by ${printable(name)}; the device is`,
      [namedLine(namesOfDevice(device))],
    );
  }
  const found = devices.find((device) => device.id === id);
  if (found !== undefined) return found;
  const same = devices.filter(({ hostname }) => hostname === name);
  const more = same.length === 0 ? '' : `; ${printable(name)} is now the name of another device:`;
  throw new CliError(
    'notFound',
    `no device has the id ${id}${more}`,
    same.map((device) => namedLine(namesOfDevice(device))),
  );
}

function labelLines(now: readonly string[], then: readonly string[] | undefined): readonly Line[] {
  if (then === undefined) return [];
  return [
    ...now.filter((label) => !then.includes(label)).map((label) => ['-', `label ${label}`] as const),
    ...then.filter((label) => !now.includes(label)).map((label) => ['+', `label ${label}`] as const),
  ];
}

/** What a file names is meant first; then what the server has. */
function reference(
  name: string,
  policy: Desired,
  found: ReadonlyMap<DesiredGroup, SecurityGroup | undefined>,
  { groups }: CurrentPolicy,
): GroupReference {
  const named = policy.groups.filter((group) => group.scope !== 'default' && group.name === name);
  const [only, second] = named;
  if (only === undefined || second !== undefined || isUuid(name)) return { id: pickGroup(groups, name).id };
  const group = found.get(only);
  const others = groups.filter(({ id }) => id !== group?.id && couldMean(id, name));
  if (others.length > 0)
    throw usageError(
      `${printable(name)} is ambiguous: it is the name of a group in the files and part of the id of another; use an id:`,
      [...(group === undefined ? [] : [group]), ...others].map((one) => namedLine(namesOfGroup(one))),
    );
  return group === undefined ? { scope: only.scope, name } : { id: group.id };
}

/** Groups of the kinds that the files are about, and that no file names. The default group always stays. */
function unnamedGroups(
  desired: Desired,
  found: ReadonlyMap<DesiredGroup, SecurityGroup | undefined>,
  { groups, me }: CurrentPolicy,
): readonly SecurityGroup[] {
  const scopes = new Set<string>(desired.groups.map(({ scope }) => scope));
  scopes.delete('default');
  const kept = new Set([...found.values()].map((group) => group?.id));
  return groups.filter((group) => scopes.has(scopeOf(group, me)) && !kept.has(group.id));
}

/** A group that no file names goes, but for the rules that were granted for a while. */
function pruneStep(group: SecurityGroup, { inbound, outbound }: Rules, names: PeerNames): readonly Step[] {
  const { group_name: name, inbound_rules: oldIn = [], outbound_rules: oldOut = [] } = group;
  if (inbound.length + outbound.length === 0) return [{ action: 'delete', kind: 'group', name, group, lines: [] }];
  const inLines = ruleLines('inbound', oldIn, inbound, names);
  const outLines = ruleLines('outbound', oldOut, outbound, names);
  if (inLines.length + outLines.length === 0) return [];
  const body = { inbound_rules: [...inbound], outbound_rules: [...outbound] };
  return [{ action: 'update', kind: 'group', name, group, body, lines: [...inLines, ...outLines] }];
}

const signs = { create: '+', update: '~', delete: '-' } as const;
const styles = { '+': 'green', '~': 'yellow', '-': 'red' } as const;

/** A step as a person reads it: what it is about, then everything that it changes. */
export function renderStep({ action, kind, name, lines }: Step, paint: Paint): readonly string[] {
  const line = (sign: '+' | '-' | '~', text: string): string => paint(styles[sign], `${sign} ${printable(text)}`);
  return [line(signs[action], `${kind} ${name}`), ...lines.map(([sign, text]) => `    ${line(sign, text)}`)];
}
