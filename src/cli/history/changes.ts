/** Owns the difference between two states in words: one line for each thing that came, went or became something else. */
import type { SecurityGroup } from '../../api/group.ts';
import type { DevicePolicy } from '../../api/history/states.ts';
import type { Direction, StoredRule } from '../../policy/rule.ts';
import { ruleWords } from '../group/rule-text.ts';
import { sameRule } from '../group/text.ts';
import type { Paint } from '../terminal/screen.ts';
import { visible } from '../../node/visible.ts';

export type Line = readonly [sign: '+' | '-' | '~', text: string];

const colours = { '+': 'green', '-': 'red', '~': 'yellow' } as const;

export const paintLine = ([sign, text]: Line, paint: Paint): string => paint(colours[sign], `${sign} ${visible(text)}`);

/** Rules have no order: only what is there too much or too little counts. */
function ruleLines(direction: Direction, before: readonly StoredRule[], after: readonly StoredRule[]): readonly Line[] {
  const left = [...after];
  const gone = before.filter((rule) => {
    const at = left.findIndex((other) => sameRule(rule, other));
    if (at !== -1) left.splice(at, 1);
    return at === -1;
  });
  const word = direction === 'inbound' ? 'in' : 'out';
  const line =
    (sign: '+' | '-') =>
    (rule: StoredRule): Line => [sign, `${word} ${ruleWords(direction, rule)}`];
  return [...gone.map(line('-')), ...left.map(line('+'))];
}

/** What takes no part in a comparison: it differs by itself, or never. */
const still = new Set(['id', 'org_id', 'organization_id', 'revision', 'created_at', 'updated_at', 'is_default']);
const labels: Readonly<Record<string, string>> = {
  group_name: 'name',
  group_description: 'description',
  user_id: 'user',
};
const told = (value: unknown): string =>
  typeof value === 'string' && value !== '' ? value : JSON.stringify(value ?? null);

/** Fields as they are, those apart that are told in a way of their own. */
function fieldLines(before: object, after: object, apart: readonly string[]): readonly Line[] {
  const [old, now]: Readonly<Record<string, unknown>>[] = [{ ...before }, { ...after }];
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names]
    .filter((name) => !still.has(name) && !apart.includes(name))
    .filter((name) => JSON.stringify(old?.[name]) !== JSON.stringify(now?.[name]))
    .map((name): Line => {
      const [from, to] = [old?.[name], now?.[name]];
      const label = labels[name] ?? name.replaceAll('_', ' ');
      if (from === undefined) return ['+', `${label} ${told(to)}`];
      return to === undefined ? ['-', `${label} ${told(from)}`] : ['~', `${label} ${told(from)} → ${told(to)}`];
    });
}

const rules = ['inbound_rules', 'outbound_rules'] as const;

/** What leads from one state of a group to another; an absent one was not there. */
export function groupChanges(before: SecurityGroup | undefined, after: SecurityGroup | undefined): readonly Line[] {
  const none: Partial<SecurityGroup> = {};
  const [old, now] = [before ?? none, after ?? none];
  return [
    ...fieldLines(old, now, rules),
    ...ruleLines('inbound', old.inbound_rules ?? [], now.inbound_rules ?? []),
    ...ruleLines('outbound', old.outbound_rules ?? [], now.outbound_rules ?? []),
  ];
}

/** The same of a device; `nameOf` names a group. */
export function deviceChanges(
  before: DevicePolicy | undefined,
  after: DevicePolicy | undefined,
  nameOf: (id: string) => string,
): readonly Line[] {
  const named = (policy: DevicePolicy | undefined): object =>
    policy === undefined
      ? {}
      : { ...policy, groups: (policy.security_groups ?? []).map((id) => nameOf(id)).join(', ') || 'default' };
  return fieldLines(named(before), named(after), ['security_groups']);
}
