/** Owns the browsing of an organization's activity: kinds in plain words, days, and what a search covers. */
import type { AuditEntry } from '../../api/audit.ts';
import { wholeSentence, type Names } from '../../client/words/sentence.ts';

/** What an entry is about. */
export type Topic = 'groups' | 'devices' | 'trials' | 'people' | 'access';

const topics: readonly (readonly [RegExp, Topic])[] = [
  [/SecurityGroup$/, 'groups'],
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
