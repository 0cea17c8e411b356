/** Owns the draft of a group: the content of the editor's fields, and the server's validation of it, field by field. */
import { portProblemInWords } from '../../client/words/port-problem.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { readGroup, type GroupInput } from '../../policy/group.ts';
import type { Problem } from '../../policy/problem.ts';
import { defaultLimits, namingLimits, type Limits } from '../../policy/limits.ts';
import type { Direction, GuardrailKind, SecurityRule, Selector, StoredRule } from '../../policy/rule.ts';
import type { Service } from '../../policy/services.ts';
import { chipsOf, misspelt, noNames, readChips, readSelectorChip, selectorChip, type DeviceNames } from './far-end.ts';
import { isIcmp, portsText } from './rule-text.ts';

export interface DraftRule {
  /** Stays the same while the rule is edited. */
  readonly key: string;
  readonly protocol: string;
  /** Nothing for any port, `443`, or `8000-8100`; whatever was typed. */
  readonly ports: string;
  /** Chips: addresses, labels, devices; none for any address. */
  readonly ranges: readonly string[];
  /** RFC 3339; absent where the rule does not expire. */
  readonly expiresAt?: string | undefined;
  readonly description?: string | undefined;
}

export interface Draft {
  readonly name: string;
  readonly description: string;
  readonly inbound: readonly DraftRule[];
  readonly outbound: readonly DraftRule[];
  /** Chips: labels of devices that have the group without naming it. */
  readonly appliesTo: readonly string[];
}

/** What a group holds, without what the server adds. */
export interface Content {
  readonly group_name: string;
  readonly group_description: string;
  readonly inbound_rules: readonly StoredRule[];
  readonly outbound_rules: readonly StoredRule[];
  readonly applies_to: readonly Selector[];
  readonly guardrail?: GuardrailKind;
  /** As in a record: only where the group is watch only. */
  readonly mode?: 'observe';
}

export const contentOf = (group: SecurityGroup): Content => ({
  group_name: group.group_name,
  group_description: group.group_description,
  inbound_rules: group.inbound_rules ?? [],
  outbound_rules: group.outbound_rules ?? [],
  applies_to: group.applies_to ?? [],
  ...(group.guardrail && { guardrail: group.guardrail }),
  ...(group.mode === 'observe' && { mode: group.mode }),
});

export const emptyContent: Content = {
  group_name: '',
  group_description: '',
  inbound_rules: [],
  outbound_rules: [],
  applies_to: [],
};

let made = 0;
const newKey = (): string => `rule-${(made += 1)}`;

const draftRule = (rule: SecurityRule, names: DeviceNames): DraftRule => ({
  key: newKey(),
  protocol: rule.ip_protocol,
  ports: portsText(rule),
  ranges: chipsOf(rule, names),
  expiresAt: rule.expires_at,
  description: rule.description,
});
export const blankRule = (): DraftRule => ({ key: newKey(), protocol: 'tcp', ports: '', ranges: [] });
export const serviceRule = ({ ip_protocol, port }: Service): DraftRule =>
  draftRule({ ip_protocol, from_port: port, to_port: port }, noNames);
export const copyRule = (rule: DraftRule): DraftRule => ({ ...rule, key: newKey() });

export const draftOf = (content: Content, names: DeviceNames): Draft => ({
  name: content.group_name,
  description: content.group_description,
  inbound: content.inbound_rules.map((rule) => draftRule(rule, names)),
  outbound: content.outbound_rules.map((rule) => draftRule(rule, names)),
  appliesTo: content.applies_to.map(selectorChip),
});

/** The two ports of a text. What is no number goes on as it is, so that the one validation speaks about it. */
export function portsOf(text: string): readonly [unknown, unknown] {
  const trimmed = text.trim();
  if (trimmed === '' || trimmed.toLowerCase() === 'any') return [0, 0];
  const number = (part: string): unknown => (/^\d{1,9}$/.test(part) ? Number(part) : part);
  const [from = '', to = '', ...more] = trimmed.split(/[-–]/).map((part) => part.trim());
  const isRange = from !== '' && to !== '' && more.length === 0;
  return isRange ? [number(from), number(to)] : [number(trimmed), number(trimmed)];
}

function ruleBody({ protocol, ports, ranges, expiresAt, description }: DraftRule, names: DeviceNames): unknown {
  const [from_port, to_port] = isIcmp(protocol) ? [0, 0] : portsOf(ports);
  const expiry = expiresAt === undefined ? {} : { expires_at: expiresAt };
  const described = description === undefined ? {} : { description };
  return { ip_protocol: protocol, from_port, to_port, ...readChips(ranges, names), ...expiry, ...described };
}

const bodyOf = (draft: Draft, { guardrail, mode, names }: JudgeOptions): unknown => ({
  group_name: draft.name.trim(),
  group_description: draft.description,
  inbound_rules: draft.inbound.map((rule) => ruleBody(rule, names)),
  outbound_rules: draft.outbound.map((rule) => ruleBody(rule, names)),
  // A chip that is no label is a label of wrong form: so the validation says what is wrong.
  ...(draft.appliesTo.length > 0 && {
    applies_to: draft.appliesTo.map((chip) => readSelectorChip(chip) ?? { labels: chip.split('+') }),
  }),
  ...(guardrail && { guardrail }),
  ...(mode && { mode }),
});

/** Validates peers and selectors as the server would. The server itself decides whether it allows them. */
const limits: Limits = { ...defaultLimits, ...namingLimits };

export interface JudgedDraft {
  readonly problems: readonly Problem[];
  /** What would be stored; only where there is no problem. */
  readonly content: Content | undefined;
}

export interface JudgeOptions {
  readonly names: DeviceNames;
  readonly guardrail?: GuardrailKind | undefined;
  readonly mode?: Content['mode'] | undefined;
}

export function judge(draft: Draft, options: JudgeOptions): JudgedDraft {
  const { problems: found, group } = readGroup(bodyOf(draft, options), { mode: 'create', limits });
  const problems = found.map((problem) => {
    const near = nearWordAt(draft, problem.pointer);
    return near === undefined ? problem : { ...problem, detail: near };
  });
  return { problems, content: problems.length > 0 ? undefined : complete(group) };
}

/** What a wrong chip may mean, where the problem is about one. */
function nearWordAt(draft: Draft, pointer: string): string | undefined {
  const at = /^\/(?:(in|out)bound_rules\/(\d+)\/ip_ranges|applies_to)\/(\d+)(?:\/|$)/.exec(pointer);
  if (at === null) return undefined;
  const [, direction, rule, index] = at;
  if (direction === undefined) return misspelt(draft.appliesTo[Number(index)] ?? '');
  const ranges = draft[direction === 'in' ? 'inbound' : 'outbound'][Number(rule)]?.ranges ?? [];
  return misspelt(readChips(ranges, noNames).ip_ranges?.[Number(index)] ?? '');
}

const complete = (group: GroupInput): Content => ({
  group_name: group.group_name ?? '',
  group_description: group.group_description ?? '',
  inbound_rules: group.inbound_rules ?? [],
  outbound_rules: group.outbound_rules ?? [],
  applies_to: group.applies_to ?? [],
  ...(group.guardrail && { guardrail: group.guardrail }),
  ...(group.mode === 'observe' && { mode: group.mode }),
});

export type RuleField = 'protocol' | 'ports' | 'ranges' | 'description';
const fieldOf: readonly (readonly [string, RuleField])[] = [
  ['ip_protocol', 'protocol'],
  ['from_port', 'ports'],
  ['to_port', 'ports'],
  ['ip_ranges', 'ranges'],
  ['peers', 'ranges'],
  ['description', 'description'],
];

/** The sentences that belong to one field of one rule; none twice. Both ports stand in one field. */
export function problemsAt(
  problems: readonly Problem[],
  direction: Direction,
  index: number,
  field: RuleField,
): readonly string[] {
  const names = new Set(fieldOf.filter(([, known]) => known === field).map(([name]) => name));
  const prefix = `/${direction}_rules/${index}/`;
  const here = problems.filter(
    ({ pointer }) => pointer.startsWith(prefix) && names.has(pointer.slice(prefix.length).split('/')[0] ?? ''),
  );
  // `443x` fails as both ends of its range: once is enough.
  const [first] = here;
  return field === 'ports'
    ? first === undefined
      ? []
      : [portProblemInWords(first.detail)]
    : [...new Set(here.map(({ detail }) => detail))];
}

export const problemAt = (problems: readonly Problem[], pointer: string): string | undefined =>
  problems.find((problem) => problem.pointer === pointer || problem.pointer.startsWith(`${pointer}/`))?.detail;

/** How many fields are wrong: both ports stand in one. */
export const countFields = (problems: readonly Problem[]): number =>
  new Set(problems.map(({ pointer }) => pointer.replace(/(from|to)_port$/, 'ports'))).size;
