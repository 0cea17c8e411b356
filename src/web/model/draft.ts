/** Owns the draft of a group: the content of the editor's fields, the server's validation of it, its difference from another state, and drafts that begin on other pages. */
import { portProblemInWords } from '../../client/words/port-problem.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { readGroup, type GroupInput } from '../../policy/group.ts';
import type { Problem } from '../../policy/problem.ts';
import { defaultLimits, namingLimits, type Limits } from '../../policy/limits.ts';
import {
  protocols,
  type Direction,
  type GuardrailKind,
  type SecurityRule,
  type Selector,
  type StoredRule,
  type GroupMode,
  type Family,
} from '../../policy/rule.ts';
import type { Service } from '../../policy/services.ts';
import {
  chipsOf,
  misspelt,
  noNames,
  readChips,
  readSelectorChip,
  selectorChip,
  deviceChip,
  type DeviceNames,
} from './far-end.ts';
import { isIcmp, portsText } from './rule-text.ts';
import { peerKey } from '../../policy/fleet/selector.ts';
import { ruleChanges, rulesWithout, type RuleChanges } from '../../client/words/rule.ts';
import type { Device } from '../../api/device.ts';
import type { TestFailure } from '../../policy/policy-test/policy-test.ts';
import type { Probe } from './reachability.ts';

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

interface JudgedDraft {
  readonly problems: readonly Problem[];
  /** What would be stored; only where there is no problem. */
  readonly content: Content | undefined;
}

interface JudgeOptions {
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

const selectorsKey = (selectors: readonly Selector[]): string => selectors.map(peerKey).toSorted().join('\n');

export interface Difference {
  readonly name: readonly [string, string] | undefined;
  readonly description: readonly [string, string] | undefined;
  readonly appliesTo: readonly [string, string] | undefined;
  readonly mode: readonly [string, string] | undefined;
  readonly inbound: RuleChanges;
  readonly outbound: RuleChanges;
  readonly count: number;
}

const pair = (before: string, after: string): readonly [string, string] | undefined =>
  before === after ? undefined : [before, after];

const modeText = ({ mode }: Content): string => (mode === 'observe' ? 'watch only' : 'enforces');

export function difference(before: Content, after: Content): Difference {
  const name = pair(before.group_name, after.group_name);
  const description = pair(before.group_description, after.group_description);
  const texts = (selectors: readonly Selector[]): string => selectors.map(selectorChip).join(', ');
  const appliesTo =
    selectorsKey(before.applies_to) === selectorsKey(after.applies_to)
      ? undefined
      : ([texts(before.applies_to), texts(after.applies_to)] as const);
  const mode = pair(modeText(before), modeText(after));
  const inbound = ruleChanges(before.inbound_rules, after.inbound_rules);
  const outbound = ruleChanges(before.outbound_rules, after.outbound_rules);
  const rules = [inbound, outbound].reduce((sum, { added, removed }) => sum + added.length + removed.length, 0);
  return {
    name,
    description,
    appliesTo,
    mode,
    inbound,
    outbound,
    count: rules + [name, description, appliesTo, mode].filter((change) => change !== undefined).length,
  };
}

function mergeRules(
  base: readonly StoredRule[],
  mine: readonly StoredRule[],
  theirs: readonly StoredRule[],
): readonly StoredRule[] {
  const my = ruleChanges(base, mine);
  const kept = rulesWithout(theirs, my.removed);
  // What both added is added once.
  return [...kept, ...rulesWithout(my.added, ruleChanges(base, theirs).added)];
}

/** Merges both users' changes into the common base. Where both changed the same text, mine wins. The editor does not change the mode. */
export const merge = (base: Content, mine: Content, theirs: Content): Content => ({
  group_name: mine.group_name === base.group_name ? theirs.group_name : mine.group_name,
  group_description:
    mine.group_description === base.group_description ? theirs.group_description : mine.group_description,
  inbound_rules: mergeRules(base.inbound_rules, mine.inbound_rules, theirs.inbound_rules),
  outbound_rules: mergeRules(base.outbound_rules, mine.outbound_rules, theirs.outbound_rules),
  applies_to: selectorsKey(mine.applies_to) === selectorsKey(base.applies_to) ? theirs.applies_to : mine.applies_to,
  ...(theirs.guardrail && { guardrail: theirs.guardrail }),
  ...(theirs.mode && { mode: theirs.mode }),
});

/** The fields of an update. */
type ContentPatch = Partial<Omit<Content, 'mode'>> & { readonly mode?: GroupMode };

/** Only what is to change, so that nothing else is claimed. */
export function patchOf(before: Content, after: Content): ContentPatch {
  const changed = difference(before, after);
  const any = ({ added, removed }: RuleChanges): boolean => added.length + removed.length > 0;
  return {
    ...(changed.name === undefined ? {} : { group_name: after.group_name }),
    ...(changed.description === undefined ? {} : { group_description: after.group_description }),
    ...(any(changed.inbound) ? { inbound_rules: after.inbound_rules } : {}),
    ...(any(changed.outbound) ? { outbound_rules: after.outbound_rules } : {}),
    ...(changed.appliesTo === undefined ? {} : { applies_to: after.applies_to }),
    ...(changed.mode === undefined ? {} : { mode: after.mode ?? 'enforce' }),
  };
}

/** `inbound tcp 5432 <device id>`; the far end may also be `label:app`, `all-devices` or an address. */
export function printDraft({
  direction,
  probe,
  farEnd,
  family,
}: {
  readonly direction: Direction;
  readonly probe: Probe;
  readonly farEnd: Pick<Device, 'id'>;
  readonly family: Family;
}): string {
  const what = probe.kind === 'ping' ? (family === 4 ? 'icmp 0' : 'icmpv6 0') : `${probe.kind} ${probe.port}`;
  return `${direction} ${what} ${farEnd.id}`;
}

/** The rule that would make a failing test pass; undefined where a draft cannot say it. */
export function fixDraft({ direction, rule }: NonNullable<TestFailure['fix']>): string | undefined {
  const { ip_protocol, from_port, to_port, peers = [], ip_ranges = [] } = rule;
  const [peer] = peers;
  const farEnd = peer === undefined ? ip_ranges[0] : 'device_id' in peer ? peer.device_id : selectorChip(peer);
  if (peers.length + ip_ranges.length !== 1 || from_port !== to_port || farEnd === undefined) return undefined;
  return `${direction} ${ip_protocol} ${from_port} ${farEnd}`;
}

export interface DraftedRule {
  readonly direction: Direction;
  readonly rule: DraftRule;
}

/** Undefined for what no page of ours has written. */
export function readDraft(text: string, names: DeviceNames): DraftedRule | undefined {
  const [, direction, protocol = '', port, farEnd = ''] =
    /^(inbound|outbound) ([a-z0-9]{1,8}) (\d{1,5}) ([0-9a-f-]{36}|all-devices|label:[a-z0-9._/+-]{1,511}|[0-9a-f.:/]{2,43})$/.exec(
      text,
    ) ?? [];
  if ((direction !== 'inbound' && direction !== 'outbound') || !protocols.some((known) => known === protocol)) {
    return undefined;
  }
  const ports = port === '0' ? '' : (port ?? '');
  const chip = /^[0-9a-f-]{36}$/.test(farEnd) ? deviceChip(names.nameOf(farEnd)) : farEnd;
  return { direction, rule: { ...blankRule(), protocol, ports, ranges: [chip] } };
}

export const withDrafted = (draft: Draft, drafted: DraftedRule | undefined): Draft =>
  drafted === undefined ? draft : { ...draft, [drafted.direction]: [...draft[drafted.direction], drafted.rule] };

type IsUnused = (direction: Direction, rule: StoredRule, index: number) => boolean;

interface WithoutUnused {
  readonly content: Content;
  readonly removed: number;
  /** Unused outbound rules that stay, because no other outbound rule would be left. */
  readonly kept: number;
}

export function withoutUnused(content: Content, isUnused: IsUnused): WithoutUnused {
  const left = (direction: Direction): readonly StoredRule[] =>
    content[`${direction}_rules`].filter((rule, index) => !isUnused(direction, rule, index));
  const [inbound_rules, outbound] = [left('inbound'), left('outbound')];
  const before = content.outbound_rules;
  // A guardrail closes and opens nothing but what it names.
  const opens = outbound.length === 0 && before.length > 0 && content.guardrail === undefined;
  const outbound_rules = opens ? before : outbound;
  return {
    content: { ...content, inbound_rules, outbound_rules },
    removed: content.inbound_rules.length - inbound_rules.length + before.length - outbound_rules.length,
    kept: opens ? before.length : 0,
  };
}
