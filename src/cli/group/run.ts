/** Owns the implementation of the group commands, except editing in an editor. */
import type { SecurityGroup, UpdateSecurityGroup, WrittenGroup } from '../../api/group.ts';
import type { UpdateGroup, WriteOptions } from '../../client/calls.ts';
import type { Client } from '../../client/http.ts';
import { readGroup, type GroupInput } from '../../policy/group.ts';
import { defaultLimits, namingLimits, type Limits } from '../../policy/limits.ts';
import type { Direction, Selector, StoredRule, GroupMode } from '../../policy/rule.ts';
import { CliError, usageError } from '../terminal/exit.ts';
import { describeRules, goneDevices, problemLines, rulesInWords, selectorsInWords } from './text.ts';
import { namesFor, noNames, peerNames, readSelector, type PeerNames } from './peer-text.ts';
import { devicesOf } from '../../organization/of-records.ts';
import { printDryRun } from './dry-run.ts';
import { readOrRefuse } from './written-group.ts';
import { readOneInput } from '../terminal/input-file.ts';
import { expiryWords } from '../../client/words/expiry.ts';
import { ruleWords, sameButExpiry, sameRule, sameWritten } from '../../client/words/rule.ts';
import { readDirection, readRuleWords } from './rule-text.ts';
import { sayHostBits, askAboutName, askAboutLabels, askAboutTrial } from './doubts.ts';
import { observationLines } from './observation.ts';
import { usageLines } from './usage.ts';
import type { Session } from '../session/session.ts';
import { idColumn, sortByName } from '../terminal/table.ts';
import { readExpiry, shortTime } from '../terminal/time.ts';
import { allDevices, deviceName } from '../lookup/device.ts';
import { allGroups, findGroup, pickGroup } from '../lookup/group.ts';
import { userNames } from '../lookup/resource.ts';
import { RingfenceError } from '../../client/error.ts';
import { writeOrAsk } from '../lookup/write-changes.ts';

const ownerWords = (group: SecurityGroup, nameOf: (user: string) => string): string => {
  const { is_default, user_id, guardrail, mode } = group;
  const watchOnly = mode === 'observe' ? ', watch only' : '';
  if (guardrail !== undefined) return `guardrail, ${guardrail}${watchOnly}`;
  const owner = is_default === true ? 'default' : user_id === undefined ? 'organization' : `user ${nameOf(user_id)}`;
  return `${owner}${watchOnly}`;
};

/** Rules may name devices here; a server that does not allow it says so itself. */
const limits: Limits = { ...defaultLimits, ...namingLimits };
const rulesField = { inbound: 'inbound_rules', outbound: 'outbound_rules' } as const;
const rulesOf = (group: SecurityGroup, direction: Direction): readonly StoredRule[] =>
  group[rulesField[direction]] ?? [];

/** A rule that expires, and its group. */
interface ExpiringRule {
  readonly group: SecurityGroup;
  readonly direction: Direction;
  readonly rule: StoredRule;
  readonly expires_at: string;
}

function withoutExpiry(rule: StoredRule): StoredRule {
  const { expires_at: _, ...rest } = rule;
  return rest;
}

async function listExpiring(session: Session): Promise<void> {
  const groups = await allGroups(session);
  const found = groups.flatMap((group) =>
    (['inbound', 'outbound'] as const).flatMap((direction) =>
      rulesOf(group, direction).flatMap((rule): readonly ExpiringRule[] =>
        rule.expires_at === undefined ? [] : [{ group, direction, rule, expires_at: rule.expires_at }],
      ),
    ),
  );
  const rules = found.toSorted((a, b) => Date.parse(a.expires_at) - Date.parse(b.expires_at));
  const rows = rules.map(({ group: { id, group_name }, direction, rule, expires_at }) => ({
    group_id: id,
    group_name,
    direction,
    rule,
    expires_at,
  }));
  const names = session.isForPeople
    ? await namesFor(
        session,
        rulesInWords(
          'inbound',
          rows.map(({ rule }) => rule),
        ),
      )
    : noNames;
  await session.printList(rows, {
    none: 'No rule expires.',
    id: 'group_id',
    columns: () => [
      { head: 'GROUP', text: ({ group_name }) => group_name },
      { head: 'DIRECTION', text: ({ direction }) => (direction === 'inbound' ? 'in' : 'out') },
      { head: 'RULE', text: ({ direction, rule }) => ruleWords(direction, withoutExpiry(rule), names) },
      { head: 'EXPIRES', text: ({ expires_at }) => expiryWords(expires_at) },
      { head: 'AT', text: ({ expires_at }) => shortTime(expires_at), wide: true },
    ],
  });
}

export async function list(session: Session, options: { readonly expiring?: boolean } = {}): Promise<void> {
  if (options.expiring === true) return listExpiring(session);
  const [groups, nameOf] = await Promise.all([allGroups(session), userNames(session)]);
  await session.printList(groups, {
    none: 'There are no groups that you can see.',
    sortBy: 'group_name',
    columns: (layout) => [
      { head: 'NAME', text: ({ group_name }) => group_name },
      idColumn<SecurityGroup>('ID', ({ id }) => id, layout),
      { head: 'OWNER', text: (group) => ownerWords(group, nameOf) },
      { head: 'IN', text: (group) => String(rulesOf(group, 'inbound').length), align: 'right' },
      { head: 'OUT', text: (group) => String(rulesOf(group, 'outbound').length), align: 'right' },
      { head: 'APPLIES TO', text: ({ applies_to }) => selectorsInWords(applies_to).join(', '), wide: true },
      { head: 'REVISION', text: ({ revision }) => String(revision), align: 'right', wide: true },
      { head: 'UPDATED', text: ({ updated_at }) => shortTime(updated_at), wide: true },
      { head: 'DESCRIPTION', text: ({ group_description }) => group_description },
    ],
  });
}

export async function show(session: Session, text: string): Promise<void> {
  const [group, devices, nameOf] = await Promise.all([
    findGroup(session, text),
    session.isForPeople ? allDevices(session) : [],
    userNames(session),
  ]);
  const groups = session.isForPeople ? await allGroups(session) : [];
  const users = devicesOf(group.id, devices, groups);
  const names = peerNames(devices);
  const gone = goneDevices(group, names).map(
    (id) => `device ${id} no longer exists: entries that name it match no device`,
  );
  await session.printRecord(group, [
    ['name', group.group_name],
    ['id', group.id],
    ['description', group.group_description],
    ['owner', ownerWords(group, nameOf)],
    ...(group.applies_to === undefined ? [] : [['applies to', selectorsInWords(group.applies_to)] as const]),
    ['in', describeRules('inbound', group.inbound_rules, names)],
    ['out', describeRules('outbound', group.outbound_rules, names)],
    ...(gone.length === 0 ? [] : [['stale', gone] as const]),
    ...(session.isForPeople ? await usageLines(session, group, names) : []),
    ...(session.isForPeople ? await observationLines(session, group) : []),
    ['devices', sortByName(users.map(deviceName), (name) => name)],
    ['revision', String(group.revision)],
    ['created', shortTime(group.created_at)],
    ['updated', shortTime(group.updated_at)],
  ]);
}

export interface NewGroup {
  readonly appliesTo?: readonly string[];
  readonly guardrail?: string;
  readonly description?: string;
  readonly mine?: boolean;
  readonly in?: readonly string[];
  readonly out?: readonly string[];
  readonly file?: string;
  readonly observe?: boolean;
}

export async function create(session: Session, name: string, options: NewGroup): Promise<void> {
  const client = await session.client();
  const body = { ...(await bodyOf(session, options)), group_name: name };
  const { group, ...found } = readGroup(body, { mode: 'create', limits });
  if (found.problems.length > 0) throw usageError('the group is not valid:', problemLines(found));
  const api = options.mine === true ? client.userGroups : client.groups;
  const organization = await session.organization();
  sayHostBits(session, [...(group.inbound_rules ?? []), ...(group.outbound_rules ?? [])]);
  await askAboutLabels(session, group);
  const owner = options.mine === true ? { user_id: (await client.whoAmI()).id } : {};
  if (session.values.dryRun === true) return printDryRun(session, { after: { group_name: name, ...group, ...owner } });
  await askAboutName(session, name, owner);
  const made = await api.create(organization, { group_name: name, ...group }, session.groupQuery);
  return printChange(session, 'Created', made);
}

/** What the options and the file say; each rule from one place only. */
async function bodyOf(session: Session, options: NewGroup): Promise<Readonly<Record<string, unknown>>> {
  const { description, file, appliesTo, guardrail, observe } = options;
  const input = file === undefined ? undefined : await readOneInput(file, session);
  const names = await namesFor(session, [...(options.in ?? []), ...(options.out ?? []), input?.value]);
  const words = (direction: Direction, texts: readonly string[] | undefined) =>
    texts?.flatMap((text) => readRuleWords(direction, [text], names));
  if (file !== undefined && (options.in ?? options.out) !== undefined) {
    throw usageError('use either --file, or --in and --out');
  }
  const fromFile: GroupInput = input === undefined ? {} : readOrRefuse(input, 'update', names);
  const inbound_rules = words('inbound', options.in);
  const outbound_rules = words('outbound', options.out);
  return {
    ...fromFile,
    ...(description !== undefined && { group_description: description }),
    ...(inbound_rules !== undefined && { inbound_rules }),
    ...(outbound_rules !== undefined && { outbound_rules }),
    ...(appliesTo !== undefined && { applies_to: readSelectors(appliesTo) }),
    ...(guardrail !== undefined && { guardrail }),
    ...(observe === true && { mode: 'observe' }),
  };
}

/** What an option says of the devices that a group applies to; `none` for none by label. */
export const readSelectors = (texts: readonly string[]): readonly Selector[] =>
  texts.length === 1 && texts[0] === 'none' ? [] : texts.flatMap((text) => text.split(',')).map(readSelector);

export async function printChange(session: Session, verb: string, group: WrittenGroup): Promise<void> {
  session.noteTrial(group);
  await session.printRecord(group, `${verb} group ${group.group_name} (${group.id}).`);
  sayWarnings(session, group);
}

/** What was saved as asked, and will not do what it says. */
export function sayWarnings(session: Session, { warnings = [] }: Pick<WrittenGroup, 'warnings'>): void {
  for (const { detail } of warnings) session.say(`Warning: ${detail}`);
}

/** Writes to the group where it lives: a user's own, or the organization's. */
export const updateGroup = (
  client: Client,
  { org_id, id, user_id }: SecurityGroup,
  body: UpdateSecurityGroup,
  options: WriteOptions & UpdateGroup,
): Promise<WrittenGroup> =>
  (user_id === undefined ? client.groups : client.userGroups).update(org_id, id, body, options);

export async function remove(session: Session, text: string): Promise<void> {
  const client = await session.client();
  const groups = await allGroups(session);
  const found = pickGroup(groups, text);
  if (session.values.dryRun === true) {
    return printDryRun(session, { before: found, ...(found.is_default === true && { after: firstRules(found) }) });
  }
  const question =
    found.is_default === true
      ? 'Reset the default group to its initial rules, which allow all traffic?'
      : `Delete group ${found.group_name}?${await usersInWords(session, found, groups)}`;
  if (!(await session.confirm(question))) return session.say('Nothing was changed.');
  const api = found.user_id === undefined ? client.groups : client.userGroups;
  const group = await api.delete(found.org_id, found.id, {
    ifMatch: found.revision,
    ...(session.values.detach === true && { detach: true }),
    ...session.testQuery,
  });
  if (found.is_default === true) {
    // Another one is in its place, by a revision of its own.
    const fresh = (await allGroups(session)).find(({ is_default }) => is_default === true);
    if (fresh !== undefined) session.noteWritten(fresh.revision);
  }
  return printChange(session, found.is_default === true ? 'Reset' : 'Deleted', group);
}

const namedDevices = 8;

/** Which devices use the group, for the question before it goes. */
async function usersInWords(session: Session, group: SecurityGroup, groups: readonly SecurityGroup[]): Promise<string> {
  if (!session.terminal.isInteractive || session.values.yes === true) return '';
  const users = devicesOf(group.id, await allDevices(session), groups);
  if (users.length === 0) return ' No device uses it.';
  const names = sortByName(users.map(deviceName), (name) => name).slice(0, namedDevices);
  const more = users.length > names.length ? ` and ${users.length - names.length} more` : '';
  return ` ${users.length === 1 ? '1 device uses it' : `${users.length} devices use it`}: ${names.join(', ')}${more}.`;
}

/** What the default group is in the beginning, and again after a reset: everything in, everything out. */
const firstRules = (group: SecurityGroup): SecurityGroup => ({
  ...group,
  inbound_rules: readNamed('inbound', ['ip'], noNames),
  outbound_rules: [],
});

type RuleAction = 'allow' | 'revoke';

export interface RuleOptions {
  /** How long the rule lives. */
  readonly for?: string;
  readonly description?: string;
}

/** The words: a group, a direction, a rule. */
export async function changeRules(
  session: Session,
  way: RuleAction,
  [text = '', directionWord, ...words]: readonly string[],
  options: RuleOptions = {},
): Promise<void> {
  const direction = readDirection(directionWord);
  const names = await namesFor(session, words);
  const { description } = options;
  const expires_at = options.for === undefined ? undefined : readExpiry(options.for, Date.now());
  const read = way === 'revoke' && words.join(' ').toLowerCase() === 'all' ? 'all' : readNamed(direction, words, names);
  const given = { ...(expires_at !== undefined && { expires_at }), ...(description !== undefined && { description }) };
  const named = read === 'all' ? read : read.map((rule) => ({ ...rule, ...given }));
  if (named !== 'all' && way === 'allow') sayHostBits(session, named);
  const client = await session.client();
  const found = await findGroup(session, text);
  const readAgain = (): Promise<SecurityGroup> => client.groups.get(found.org_id, found.id);
  const changed = await changeSafely(found, readAgain, async (newest) => {
    const now = rulesOf(newest, direction);
    const after = way === 'allow' ? withRules(now, named) : withoutRules(newest, direction, now, named);
    if (after === now || (way === 'revoke' && after.length === now.length)) return undefined;
    checkLimits(newest, direction, after);
    if (newest === found && way === 'allow') await askAboutLabels(session, { [rulesField[direction]]: after }, newest);
    if (newest === found) await askAboutTrial(session, newest);
    if (session.values.dryRun === true) return { before: newest, after: { ...newest, [rulesField[direction]]: after } };
    const how = { ifMatch: newest.revision, ...session.groupQuery };
    return updateGroup(client, newest, { [rulesField[direction]]: after }, how);
  });
  if (changed !== undefined && 'before' in changed) return printDryRun(session, changed);
  if (changed === undefined) session.say(`Group ${found.group_name} already has these rules. Nothing was changed.`);
  if (changed !== undefined) session.noteTrial(changed);
  await sayRules(session, direction, changed ?? found);
  if (changed !== undefined) sayWarnings(session, changed);
  return undefined;
}

/** The rules that the words mean, as the server would store them. */
function readNamed(direction: Direction, words: readonly string[], names: PeerNames): readonly StoredRule[] {
  const field = rulesField[direction];
  const { problems, group } = readGroup(
    { [field]: readRuleWords(direction, words, names) },
    { mode: 'update', limits },
  );
  if (problems.length > 0) throw usageError([...new Set(problems.map(({ detail }) => detail))].join(' '));
  return group[field] ?? [];
}

/** The same list where nothing is new. A rule that is there already, and expires at another time or has another description, is replaced. */
function withRules(now: readonly StoredRule[], named: readonly StoredRule[] | 'all'): readonly StoredRule[] {
  if (named === 'all') return now;
  const isKnown = (rule: StoredRule): boolean =>
    now.some((known) => (rule.description === undefined ? sameRule(known, rule) : sameWritten(known, rule)));
  const fresh = named
    .filter((rule) => !isKnown(rule))
    .map((rule) => ({ ...descriptionOf(now.find((known) => sameButExpiry(known, rule))), ...rule }));
  if (fresh.length === 0) return now;
  return [...now.filter((known) => !fresh.some((rule) => sameButExpiry(known, rule))), ...fresh];
}

/** What a rule that is replaced leaves to the one that takes its place. */
const descriptionOf = ({ description }: Pick<StoredRule, 'description'> = {}): Pick<StoredRule, 'description'> =>
  description === undefined ? {} : { description };

function withoutRules(
  { group_name }: SecurityGroup,
  direction: Direction,
  now: readonly StoredRule[],
  named: readonly StoredRule[] | 'all',
): readonly StoredRule[] {
  if (named === 'all') return [];
  const missing = named.filter((rule) => !now.some((known) => sameButExpiry(known, rule)));
  if (missing.length > 0) {
    throw new CliError(
      'notFound',
      `group ${group_name} has no ${direction} rule \`${missing.map((rule) => ruleWords(direction, rule)).join('`, `')}\`; it has:`,
      now.length === 0 ? ['none'] : rulesInWords(direction, now),
    );
  }
  return now.filter((known) => !named.some((rule) => sameButExpiry(known, rule)));
}

function checkLimits(group: SecurityGroup, direction: Direction, after: readonly StoredRule[]): void {
  const found = readGroup(
    { [rulesField[direction]]: after },
    {
      mode: 'update',
      limits,
      stored: { inbound_rules: rulesOf(group, 'inbound'), outbound_rules: rulesOf(group, 'outbound') },
    },
  );
  if (found.problems.length > 0) throw usageError('the group would not be valid:', problemLines(found));
}

/** Taking the last rule away closes the inside and opens the outside: that must not happen unsaid. */
async function sayRules(session: Session, direction: Direction, group: SecurityGroup): Promise<void> {
  const rules = rulesOf(group, direction);
  const names = session.isForPeople ? await namesFor(session, rulesInWords(direction, rules)) : noNames;
  await session.printRecord(group, [
    ['group', group.group_name],
    [direction === 'inbound' ? 'in' : 'out', describeRules(direction, rules, names)],
  ]);
}

const attempts = 5;

/** Writes what `change` makes of the newest record, unless somebody wrote in between; then once more, a few times. */
export async function changeSafely<T extends { readonly revision: number }, R>(
  record: T,
  read: () => Promise<T>,
  change: (record: T) => Promise<R>,
): Promise<R> {
  let newest = record;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await change(newest);
    } catch (error) {
      const raced = error instanceof RingfenceError && error.code === 'precondition_failed';
      if (!raced || attempt === attempts) throw error;
      newest = await read();
    }
  }
}

const modeWords: { readonly [M in GroupMode]: string } = {
  observe: 'is watch only: it decides nothing',
  enforce: 'enforces',
};

/** Makes the group watch only, or lets it enforce. */
export async function setMode(session: Session, text: string, mode: GroupMode): Promise<void> {
  const group = await findGroup(session, text);
  if ((group.mode ?? 'enforce') === mode)
    return session.say(`Group ${group.group_name} already ${modeWords[mode]}. Nothing was changed.`);
  if (session.values.dryRun === true) return printDryRun(session, { before: group, after: { ...group, mode } });
  const client = await session.client();
  const how = { ifMatch: group.revision, ...session.groupQuery };
  const changed = await writeOrAsk(session, (asked) => updateGroup(client, group, { mode }, { ...how, ...asked }));
  return printChange(session, mode === 'observe' ? 'Made watch only:' : 'Enforces now:', changed);
}

export interface CopyOptions {
  readonly mine?: boolean;
  readonly appliesTo?: readonly string[];
}

/** The copy has the rules and the description. It applies to no device by label unless the person says so: a copy is mostly meant for other devices. */
export async function copy(session: Session, text: string, name: string, options: CopyOptions): Promise<void> {
  const client = await session.client();
  const {
    group_description,
    inbound_rules = [],
    outbound_rules = [],
    guardrail,
    mode,
  } = await findGroup(session, text);
  const applies_to = options.appliesTo === undefined ? [] : [...readSelectors(options.appliesTo)];
  if (guardrail !== undefined && applies_to.length === 0)
    throw usageError('a guardrail applies to devices by label: say to which the copy applies, with --applies-to');
  await askAboutLabels(session, { applies_to });
  const owner = options.mine === true ? { user_id: (await client.whoAmI()).id } : {};
  const body = {
    group_name: name,
    group_description,
    inbound_rules,
    outbound_rules,
    ...(applies_to.length > 0 && { applies_to }),
    ...(guardrail !== undefined && { guardrail }),
    ...(mode !== undefined && { mode }),
  };
  if (session.values.dryRun === true) return printDryRun(session, { after: { ...body, ...owner } });
  await askAboutName(session, name, owner);
  const api = options.mine === true ? client.userGroups : client.groups;
  return printChange(session, 'Created', await api.create(await session.organization(), body, session.groupQuery));
}

export async function rename(session: Session, text: string, name: string): Promise<void> {
  const group = await findGroup(session, text);
  if (group.group_name === name) throw usageError(`the group is already called ${name}`);
  const body = { group_name: name };
  if (session.values.dryRun === true) return printDryRun(session, { before: group, after: { ...group, ...body } });
  const { user_id } = group;
  await askAboutName(session, name, user_id === undefined ? {} : { user_id });
  const renamed = await updateGroup(await session.client(), group, body, {
    ifMatch: group.revision,
    ...session.groupQuery,
  });
  session.noteTrial(renamed);
  await session.printRecord(renamed, `Renamed group ${group.group_name} to ${renamed.group_name} (${renamed.id}).`);
  return sayWarnings(session, renamed);
}
