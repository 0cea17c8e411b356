/** Owns the browsing of an organization's activity: kinds in plain words, days, and which entries a search from the URL shows. */
import { anyText, readSearch } from '../state/search.ts';
import type { AuditEntry } from '../../api/audit.ts';
import { wholeSentence, type Names } from '../../client/words/sentence.ts';
import { isUuid } from '../../policy/ids.ts';

/** What an entry is about. */
type Topic = 'groups' | 'devices' | 'trials' | 'people' | 'access';

const topics: readonly (readonly [RegExp, Topic])[] = [
  [/SecurityGroup$|^applyChanges$|^revertChangeSet$/, 'groups'],
  [/Device$|^liftIsolation$|^createEvidence$/, 'devices'],
  [/Trial$|PolicyTests$/, 'trials'],
  [/(Token|Key|^sign(In|Out))$|Webhook|^sign/, 'access'],
];

export const topicOf = (operation: string): Topic =>
  topics.find(([pattern]) => pattern.test(operation))?.[1] ?? 'people';

export const topicChoices: readonly { readonly value: 'all' | Topic; readonly label: string }[] = [
  { value: 'all', label: 'Everything' },
  { value: 'groups', label: 'Groups and rules' },
  { value: 'devices', label: 'Devices' },
  { value: 'trials', label: 'Trials and tests' },
  { value: 'people', label: 'Members' },
  { value: 'access', label: 'Keys and sign-ins' },
];

/**
 * Whether an entry is hidden by default: requests that changed nothing, and agents that report the address of their
 * device.
 */
export const isQuiet = ({ unchanged, credential, operation }: AuditEntry): boolean =>
  unchanged === true || (credential.kind === 'device_token' && operation === 'updateDevice');

const credentials: Readonly<Record<string, string>> = {
  user_token: 'a token',
  device_token: "the device's own token",
  enrollment_key: 'an enrollment key',
  access_token: 'a token of the identity provider',
  session: 'a browser session',
};
export const credentialName = (kind: string): string => credentials[kind] ?? kind.replaceAll('_', ' ');

/** Everything of an entry that a search looks at. */
export const searchText = (entry: AuditEntry, names: Names): string =>
  [
    wholeSentence(entry, names),
    entry.operation,
    entry.address,
    entry.subject_id ?? '',
    entry.request_id,
    credentialName(entry.credential.kind),
    entry.credential.id ?? '',
    entry.revision ?? '',
    ...(entry.fields ?? []),
  ]
    .join(' ')
    .toLowerCase();

/** Whether the text contains every word. */
export const hasWords = (text: string, words: string): boolean =>
  words.split(/\s+/).every((word) => text.includes(word));

/** `Today`, `Yesterday`, or the date. */
function dayOf(at: string, now: Date): string {
  const then = new Date(at);
  const midnight = (date: Date): number => new Date(date.getFullYear(), date.getMonth(), date.getDate()).getTime();
  const days = Math.round((midnight(now) - midnight(then)) / 86_400_000);
  if (days === 0) return 'Today';
  if (days === 1) return 'Yesterday';
  return then.toLocaleDateString('en', { weekday: 'long', day: 'numeric', month: 'long', year: 'numeric' });
}

export interface Day<Entry> {
  readonly name: string;
  readonly entries: readonly Entry[];
}

export function byDay<Entry extends { readonly at: string }>(
  entries: readonly Entry[],
  now: Date,
): readonly Day<Entry>[] {
  const days = new Map<string, Entry[]>();
  for (const entry of entries) {
    const name = dayOf(entry.at, now);
    const day = days.get(name) ?? [];
    day.push(entry);
    days.set(name, day);
  }
  return [...days].map(([name, all]) => ({ name, entries: all }));
}

/** The part of the URL behind the question mark. What is absent does not narrow. */
export interface ActivitySearch {
  readonly q?: string;
  /** A user id. */
  readonly by?: string;
  readonly device?: string;
  readonly group?: string;
  /** A local date, `2026-11-18`. */
  readonly day?: string;
}

const names = ['q', 'by', 'device', 'group', 'day'] as const;

export const parseActivitySearch = (search: Readonly<Record<string, unknown>>): ActivitySearch =>
  readSearch(search, {
    q: anyText,
    by: anyText,
    device: anyText,
    group: anyText,
    day: (text) => /^\d{4}-\d\d-\d\d$/.test(text),
  });

export const isSearching = (search: ActivitySearch): boolean => names.some((name) => search[name] !== undefined);

/** When what an id names was made: the first 48 bits of such a UUID are the time. Undefined for other words. */
function madeAt(word: string | undefined): number | undefined {
  const id = word?.trim().toLowerCase() ?? '';
  return isUuid(id) && id[14] === '7' ? Number.parseInt(id.replace('-', '').slice(0, 12), 16) : undefined;
}

/** Before this moment nothing can match; undefined where it can at any. */
export const beginOf = ({ day, q }: ActivitySearch): number | undefined =>
  day === undefined ? madeAt(q) : dayLimits(day)[0];

/** The first and the last moment of a local date, in milliseconds since the epoch. */
export function dayLimits(day: string): readonly [from: number, to: number] {
  const [year = 0, month = 1, date = 1] = day.split('-').map(Number);
  return [new Date(year, month - 1, date).getTime(), new Date(year, month - 1, date + 1).getTime()];
}

/** Whether person, device, group and day match. Words are a matter of the sentence. */
export function isInSearch(entry: AuditEntry, { by, device, group, day }: ActivitySearch): boolean {
  const about = [entry.subject_id, ...(entry.before?.security_groups ?? []), ...(entry.after?.security_groups ?? [])];
  const [from, to] = day === undefined ? [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY] : dayLimits(day);
  const at = Date.parse(entry.at);
  return (
    (by === undefined || entry.user_id === by) &&
    (device === undefined || entry.subject_id === device) &&
    (group === undefined || about.includes(group)) &&
    at >= from &&
    at < to
  );
}
