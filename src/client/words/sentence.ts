/**
 * Owns an audit entry as a sentence, such as `allowed tcp 22 from bastion in ssh`, for the command line and the pages.
 */
import type { AuditEntry, AuditFields } from '../../api/audit.ts';
import type { SecurityGroup } from '../../api/group.ts';
import type { DevicePolicy } from '../../api/history/states.ts';
import type { Direction, StoredRule } from '../../policy/rule.ts';
import { actionText, actorName, changedFields } from './action.ts';
import { peerWord, portWords, preposition, ruleChanges, splitDescribed, type DeviceNaming } from './rule.ts';
import { shortId } from './short-id.ts';

/** Names of what a sentence is about; undefined for what is gone or cannot be seen. */
export interface Names {
  readonly deviceOf: (id: string) => string | undefined;
  readonly groupOf: (id: string) => string | undefined;
  /** Members, keys, tokens: whatever else has an id. */
  readonly otherOf: (id: string) => string | undefined;
  /** The device that has an address. */
  readonly ownerOf?: (address: string) => string | undefined;
}

/** The action, around the name of its subject. The text begins after the name of the person who acted. */
export interface Sentence {
  readonly before: string;
  readonly subject: string;
  readonly after: string;
}

export const sentenceText = ({ before, subject, after }: Sentence): string =>
  [before, subject].filter((part) => part !== '').join(' ') + after;

type GroupFields = Partial<SecurityGroup>;
type DeviceFields = Partial<DevicePolicy>;

const isGroup = (record: object | undefined): record is SecurityGroup => record !== undefined && 'group_name' in record;
const isDevice = (record: object | undefined): record is DevicePolicy => record !== undefined && 'hostname' in record;

export const listOf = (parts: readonly string[]): string =>
  parts.length < 2 ? parts.join('') : `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`;

/** One thing that was done: at the beginning of a sentence, and after another that has named the subject. */
interface Clause {
  readonly first: Sentence;
  readonly further: string;
}
const clause = (before: string, subject: string, after: string, further: string): Clause => ({
  first: { before, subject, after },
  further,
});

function joined(clauses: readonly Clause[]): Sentence | undefined {
  const [first, ...rest] = clauses;
  if (first === undefined) return undefined;
  const more = rest.map(({ further }) => further);
  return more.length === 0 ? first.first : { ...first.first, after: `${first.first.after}, and ${listOf(more)}` };
}

const protocolWords: Readonly<Record<string, string>> = { icmp: 'ping', icmpv6: 'ping (IPv6)' };

/** `tcp 22 from bastion`: for reading only, so devices stand by their names alone. */
function spokenRule(direction: Direction, rule: StoredRule, names: Names): string {
  const { ip_protocol, ip_ranges = [], peers = [] } = rule;
  const naming: DeviceNaming = { nameOf: names.deviceOf };
  const farEnd = [
    ...peers.map((peer) =>
      'device_id' in peer && names.deviceOf(peer.device_id) === undefined
        ? 'a deleted device'
        : peerWord(peer, naming).replace(/^device:/, ''),
    ),
    ...ip_ranges.map((range) => {
      const owner = names.ownerOf?.(range);
      return owner === undefined ? range : `${owner} (${range})`;
    }),
  ];
  const what = `${protocolWords[ip_protocol] ?? ip_protocol}${portWords(rule)}`;
  return farEnd.length === 0
    ? `${what} ${preposition[direction]} anywhere`
    : `${what} ${preposition[direction]} ${farEnd.join(', ')}`;
}

const shownRules = 3;

function spokenRules(
  rules: readonly { readonly direction: Direction; readonly rule: StoredRule }[],
  names: Names,
): string {
  // What was written for both families is stored once for each.
  const texts = rules.map(({ direction, rule }) => spokenRule(direction, rule, names));
  const merged = texts
    .filter((text) => !(text.startsWith('ipv6 ') && texts.includes(text.replace(/^ipv6/, 'ipv4'))))
    .map((text) => (texts.includes(text.replace(/^ipv4 /, 'ipv6 ')) ? text.replace(/^ipv4 /, 'ip ') : text));
  const more = merged.length - shownRules;
  return listOf(more <= 0 ? merged : [...merged.slice(0, shownRules), `${more} more`]);
}

const effects = {
  group: ['allowed', 'stopped allowing'],
  forbid: ['forbade', 'stopped forbidding'],
  require: ['required', 'stopped requiring'],
} as const;

/** A group or device as it was called, and which guardrail the group is, if any. */
interface NamedSubject {
  readonly name: string;
  readonly guardrail?: SecurityGroup['guardrail'] | undefined;
}

function ruleClause(before: GroupFields, after: GroupFields, names: Names, called: NamedSubject): Clause | undefined {
  const both = (['inbound', 'outbound'] as const).map((direction) => ({
    direction,
    ...splitDescribed(ruleChanges(before[`${direction}_rules`], after[`${direction}_rules`])),
  }));
  const spoken = (which: 'added' | 'removed'): string =>
    spokenRules(
      both.flatMap(({ direction, [which]: rules }) => rules.map((rule) => ({ direction, rule }))),
      names,
    );
  const [added, removed] = [spoken('added'), spoken('removed')];
  if (added === '' && removed === '') {
    const described = both.flatMap(({ direction, described: rules }) =>
      rules.map(({ after: rule }) => ({ direction, rule })),
    );
    return described.length === 0 ? undefined : describedClause(described, names, called.name);
  }
  const [begin, stop] = effects[called.guardrail ?? 'group'];
  const text =
    removed === ''
      ? `${begin} ${added}`
      : added === ''
        ? `${stop} ${removed}`
        : `${begin} ${added} instead of ${removed}`;
  return clause(`${text} in`, called.name, '', text);
}

/** Only descriptions changed: what is allowed stays the same. */
function describedClause(
  rules: readonly { readonly direction: Direction; readonly rule: StoredRule }[],
  names: Names,
  group: string,
): Clause {
  const [spoken, texts] = [spokenRules(rules, names), new Set(rules.map(({ rule }) => rule.description ?? ''))];
  const [text = ''] = texts;
  const isOne = texts.size === 1 && text !== '';
  const [begin, end] = isOne ? [`described ${spoken}`, ` as “${text}”`] : [`changed the description of ${spoken}`, ''];
  return clause(`${begin} in`, group, end, `${begin}${end}`);
}

function groupClauses(before: GroupFields, after: GroupFields, names: Names, called: NamedSubject): readonly Clause[] {
  const { name } = called;
  const selectors = ({ applies_to = [] }: GroupFields): string =>
    applies_to.map((selector) => peerWord(selector)).join(', ');
  const rules = ruleClause(before, after, names, called);
  return [
    ...(rules === undefined ? [] : [rules]),
    ...(after.group_name === undefined || after.group_name === before.group_name
      ? []
      : [clause('renamed group', name, ` to ${after.group_name}`, `renamed it to ${after.group_name}`)]),
    ...(selectors(before) === selectors(after)
      ? []
      : [
          clause(
            'made',
            name,
            ` apply to ${selectors(after) || 'no device by label'}`,
            `made it apply to ${selectors(after) || 'no device by label'}`,
          ),
        ]),
    ...((before.mode ?? 'enforce') === (after.mode ?? 'enforce')
      ? []
      : [
          after.mode === 'observe'
            ? clause('made', name, ' watch only', 'made it watch only')
            : clause('let', name, ' enforce', 'let it enforce'),
        ]),
    ...(before.group_description === after.group_description
      ? []
      : [clause('changed the description of', name, '', 'changed its description')]),
  ];
}

export const unseenGroup = 'a group that is deleted or not visible to you';

const without = (list: readonly string[] = [], taken: readonly string[] = []): readonly string[] =>
  list.filter((one) => !taken.includes(one));

function deviceClauses(
  before: DeviceFields,
  after: DeviceFields,
  names: Names,
  { name }: NamedSubject,
): readonly Clause[] {
  const groups = (ids: readonly string[]): string => {
    const known = ids.flatMap((id) => names.groupOf(id) ?? []);
    const unseen = ids.length - known.length;
    return listOf([
      ...(known.length === 0 ? [] : [`${known.length === 1 ? 'group' : 'groups'} ${listOf(known)}`]),
      ...(unseen === 0 ? [] : [unseen === 1 ? unseenGroup : `${unseen} groups that are deleted or not visible to you`]),
    ]);
  };
  const words = (list: readonly string[]): string => `${list.length === 1 ? 'label' : 'labels'} ${listOf(list)}`;
  const [on, off] = [
    without(after.security_groups, before.security_groups),
    without(before.security_groups, after.security_groups),
  ];
  const [labelled, unlabelled] = [without(after.labels, before.labels), without(before.labels, after.labels)];
  const addresses = ({ tunnel_ip = '', addresses: more = [] }: DeviceFields): string =>
    [tunnel_ip, ...more].filter((text) => text !== '').join(', ') || 'none';
  const receiver = (after.user_id === undefined ? undefined : names.otherOf(after.user_id)) ?? 'another member';
  const found: (Clause | undefined)[] = [
    before.hostname === after.hostname
      ? undefined
      : after.hostname === ''
        ? clause('removed the name of device', name, '', 'removed its name')
        : clause('renamed device', name, ` to ${after.hostname}`, `renamed it to ${after.hostname}`),
    on.length === 0 ? undefined : clause(`put ${groups(on)} on`, name, '', `put ${groups(on)} on it`),
    off.length === 0 ? undefined : clause(`took ${groups(off)} off`, name, '', `took ${groups(off)} off it`),
    labelled.length === 0 ? undefined : clause(`put ${words(labelled)} on`, name, '', `put ${words(labelled)} on it`),
    unlabelled.length === 0
      ? undefined
      : clause(`took ${words(unlabelled)} off`, name, '', `took ${words(unlabelled)} off it`),
    addresses(before) === addresses(after)
      ? undefined
      : clause(
          'changed the address of',
          name,
          ` from ${addresses(before)} to ${addresses(after)}`,
          `changed its address to ${addresses(after)}`,
        ),
    before.user_id === after.user_id ? undefined : clause('gave', name, ` to ${receiver}`, `gave it to ${receiver}`),
    on.length + off.length === 0 && (before.security_groups ?? []).join() !== (after.security_groups ?? []).join()
      ? clause('reordered the groups of', name, '', 'reordered its groups')
      : undefined,
  ];
  return found.filter((one) => one !== undefined);
}

const ruleCount = ({ inbound_rules = [], outbound_rules = [] }: GroupFields): string => {
  const count = inbound_rules.length + outbound_rules.length;
  return count === 0 ? '' : ` with ${count} ${count === 1 ? 'rule' : 'rules'}`;
};

/** What changed between two states of a record, without a word on who did it; undefined where nothing that counts did. */
export function changeSentence(
  before: SecurityGroup | DevicePolicy,
  after: SecurityGroup | DevicePolicy,
  names: Names,
): Sentence | undefined {
  if (isGroup(before) && isGroup(after))
    return joined(groupClauses(before, after, names, { name: before.group_name, guardrail: after.guardrail }));
  if (!isDevice(before) || !isDevice(after)) return undefined;
  return joined(deviceClauses(before, after, names, { name: before.hostname || shortId(before.id) }));
}

/** What the entry is about by its name then, else by its name now, else by its id. */
function nameIn({ operation, subject, subject_id, before, after }: AuditEntry, names: Names): string {
  const record = before ?? after;
  const name = subject?.name ?? record?.group_name ?? record?.hostname ?? '';
  if (name !== '') return name;
  if (subject_id === undefined) return '';
  const found = names.deviceOf(subject_id) ?? names.groupOf(subject_id) ?? names.otherOf(subject_id);
  return found ?? (operation.endsWith('SecurityGroup') ? 'that is deleted or not visible to you' : shortId(subject_id));
}

/** Which fields an entry may tell of, by its operation. */
const kindOf = ({ operation }: AuditEntry): string =>
  /(SecurityGroup|Device|Member|Organization)$/.exec(operation)?.[1] ?? '';

/** What was changed of a record, from the fields before and after. */
function changed(entry: AuditEntry, before: AuditFields, after: AuditFields, names: Names): Sentence | undefined {
  const name = nameIn(entry, names);
  const called = { name, guardrail: entry.subject?.guardrail ?? after.guardrail };
  switch (kindOf(entry)) {
    case 'SecurityGroup': {
      const clauses = groupClauses(before as GroupFields, after as GroupFields, names, called);
      if (!entry.operation.startsWith('restore') || clauses.length === 0) return joined(clauses);
      const text = ruleClause(before as GroupFields, after as GroupFields, names, called)?.further;
      return {
        before: actionText(entry),
        subject: after.group_name ?? name,
        after: text === undefined ? '' : `: ${text}`,
      };
    }
    case 'Device':
      return joined(deviceClauses(before as DeviceFields, after as DeviceFields, names, called));
    case 'Member':
      if (after.role === undefined) return undefined;
      return { before: 'made', subject: name, after: after.role === 'owner' ? ' an owner' : ' a member' };
    case 'Organization':
      if (after.name === undefined) return undefined;
      return { before: 'renamed organization', subject: name, after: ` to ${after.name}` };
    default:
      return undefined;
  }
}

/** The end of a sentence: why a device was isolated, and what ends by itself. */
function endOf({ before, after }: AuditEntry): string {
  const reason = after?.isolated?.reason;
  const isTried = (after?.trial ?? undefined) !== undefined && (before?.trial ?? undefined) === undefined;
  return `${reason === undefined ? '' : `: ${reason}`}${isTried ? ', on trial' : ''}`;
}

function recordSentence(entry: AuditEntry, names: Names): Sentence | undefined {
  const { before, after, subject_id = '' } = entry;
  const kind = kindOf(entry);
  if (entry.operation === 'addMember' && entry.fields?.includes('invitation') === true)
    return { before: 'joined by invitation', subject: '', after: after?.role === 'owner' ? ' as an owner' : '' };
  if (kind === 'SecurityGroup' && before?.is_default === true && entry.operation.startsWith('delete'))
    return { before: 'reset the default group', subject: '', after: '' };
  if (before !== undefined && after !== undefined) return changed(entry, before, after, names);
  const record = after ?? before;
  if (record === undefined || (kind !== 'SecurityGroup' && kind !== 'Device')) return undefined;
  const more = kind === 'Device' ? '' : ruleCount(record as GroupFields);
  return {
    before: actionText(entry),
    subject: nameIn(entry, names),
    after: after === undefined ? ` (${subject_id})` : more,
  };
}

export function sentenceOf(entry: AuditEntry, names: Names): Sentence {
  const found = recordSentence(entry, names);
  if (found !== undefined) return { ...found, after: `${found.after}${endOf(entry)}` };
  const fields = changedFields(entry);
  if (entry.operation === 'updateDevice' && entry.credential.kind === 'device_token')
    return {
      before: '',
      subject: nameIn(entry, names),
      after: entry.unchanged === true ? ' reported again, no change' : ` reported ${listOf(fields) || 'its state'}`,
    };
  return {
    before: actionText(entry),
    subject: nameIn(entry, names),
    after:
      entry.unchanged === true
        ? ', which changed nothing'
        : `${fields.length === 0 ? '' : `: ${fields.join(', ')}`}${endOf(entry)}`,
  };
}

/** Who did it, then what: `ada allowed tcp 22 from bastion in ssh`. */
export const wholeSentence = (entry: AuditEntry, names: Names): string =>
  `${actorName(entry)} ${sentenceText(sentenceOf(entry, names))}`;
