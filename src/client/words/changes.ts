/**
 * Owns the wording of the difference between two states: one line for each thing that was added, removed or changed.
 */
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import type { DevicePolicy } from '../../api/history/states.ts';
import type { Direction, Selector } from '../../policy/rule.ts';
import { namedById, peerWord, ruleChanges, ruleWords, type DeviceNaming } from './rule.ts';

export type Line = readonly [sign: '+' | '-' | '~', text: string];

function ruleLines(
  direction: Direction,
  before: Partial<SecurityGroup>,
  after: Partial<SecurityGroup>,
  names: DeviceNaming,
): readonly Line[] {
  const { added, removed } = ruleChanges(before[`${direction}_rules`], after[`${direction}_rules`]);
  const word = direction === 'inbound' ? 'in' : 'out';
  return [
    ...removed.map((rule): Line => ['-', `${word} ${ruleWords(direction, rule, names)}`]),
    ...added.map((rule): Line => ['+', `${word} ${ruleWords(direction, rule, names)}`]),
  ];
}

/** What takes no part in a comparison: it differs by itself, or never. */
const still = new Set(['id', 'org_id', 'organization_id', 'revision', 'created_at', 'updated_at', 'is_default']);
const labels: Readonly<Record<string, string>> = {
  group_name: 'name',
  group_description: 'description',
  user_id: 'user',
};

const isSelector = (value: unknown): value is Selector =>
  typeof value === 'object' && value !== null && ('labels' in value || 'all_devices' in value);

const isTrial = (value: unknown): value is NonNullable<SecurityGroup['trial']> =>
  typeof value === 'object' && value !== null && 'ends_at' in value;

const isIsolation = (value: unknown): value is NonNullable<Device['isolated']> =>
  typeof value === 'object' && value !== null && 'since' in value && 'reason' in value;

/** `2026-11-19 00:18 UTC`. */
const minuteOf = (time: string): string => `${time.slice(0, 10)} ${time.slice(11, 16)} UTC`;

function valueText(value: unknown): string {
  if (isIsolation(value)) {
    const { reason, until, allow = [] } = value;
    const allowed = allow.length === 0 ? '' : `, allowing ${allow.map((peer) => peerWord(peer)).join(', ')}`;
    return `(${reason})${until === undefined ? '' : ` until ${minuteOf(until)}`}${allowed}`;
  }
  if (isTrial(value)) return `until ${minuteOf(value.ends_at)}`;
  if (typeof value === 'string' && value !== '') return value;
  if (Array.isArray(value) && value.length > 0) {
    const entries: readonly unknown[] = value;
    if (entries.every((entry) => typeof entry === 'string')) return entries.join(', ');
    if (entries.every(isSelector)) return entries.map((entry) => peerWord(entry)).join(', ');
  }
  return JSON.stringify(value ?? null);
}

/** A record may say nothing of a field in several ways. */
const saysNothing = (value: unknown): boolean =>
  value === undefined || value === null || value === '' || (Array.isArray(value) && value.length === 0);

/** Lines for the changed fields, except those that the caller describes itself. */
export function fieldLines(before: object, after: object, except: readonly string[] = []): readonly Line[] {
  const [old, now]: Readonly<Record<string, unknown>>[] = [{ ...before }, { ...after }];
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names]
    .filter((name) => !still.has(name) && !except.includes(name))
    .filter((name) => JSON.stringify(old?.[name]) !== JSON.stringify(now?.[name]))
    .filter((name) => !saysNothing(old?.[name]) || !saysNothing(now?.[name]))
    .map((name): Line => {
      const [from, to] = [old?.[name], now?.[name]];
      const label = labels[name] ?? name.replaceAll('_', ' ');
      if (saysNothing(from)) return ['+', `${label} ${valueText(to)}`];
      return saysNothing(to)
        ? ['-', `${label} ${valueText(from)}`]
        : ['~', `${label} ${valueText(from)} → ${valueText(to)}`];
    });
}

/** Rules are compared one by one, and a group never goes to another user. */
const apart = ['inbound_rules', 'outbound_rules', 'user_id'] as const;

/** What leads from one state of a group to another; an absent one was not there. */
export function groupChanges(
  before: Partial<SecurityGroup> | undefined,
  after: Partial<SecurityGroup> | undefined,
  names: DeviceNaming = namedById,
): readonly Line[] {
  const none: Partial<SecurityGroup> = {};
  const [old, now] = [before ?? none, after ?? none];
  return [
    ...fieldLines(old, now, apart),
    ...ruleLines('inbound', old, now, names),
    ...ruleLines('outbound', old, now, names),
  ];
}

/** The same of a device; `nameOf` names a group. `except`: fields that are not compared. */
export function deviceChanges(
  before: Partial<Omit<DevicePolicy, 'id'>> | undefined,
  after: Partial<Omit<DevicePolicy, 'id'>> | undefined,
  nameOf: (id: string) => string,
  except: readonly string[] = [],
): readonly Line[] {
  const named = (policy: typeof before): object =>
    policy === undefined
      ? {}
      : { ...policy, groups: (policy.security_groups ?? []).map((id) => nameOf(id)).join(', ') || 'default' };
  return fieldLines(named(before), named(after), ['security_groups', ...except]);
}
