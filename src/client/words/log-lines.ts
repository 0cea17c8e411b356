/** Owns the lines of the log: a change of several records is one line that says what it did, and so are devices that were registered in a row. */
import type { AuditEntry } from '../../api/audit.ts';
import { actionText, actorName } from './action.ts';
import { listOf, sentenceOf, sentenceText, type Names } from './sentence.ts';
import { shortId } from './short-id.ts';

/** Entries with the newest first, those that one line tells together. */
export type ToldTogether = readonly [AuditEntry, ...AuditEntry[]];

export function foldEntries(entries: readonly AuditEntry[]): readonly ToldTogether[] {
  const lines: [AuditEntry, ...AuditEntry[]][] = [];
  for (const entry of entries) {
    const last = lines.at(-1);
    if (last !== undefined && belongsTo(last, entry)) last.push(entry);
    else lines.push([entry]);
  }
  return lines;
}

/** The newest entry stands for all: of a change set it is the one of the set. */
export interface LogLine extends AuditEntry {
  readonly sentence: string;
}

const isSet = ({ operation }: AuditEntry): boolean => operation === 'applyChanges' || operation === 'revertChangeSet';

/** Whether an entry is told in the line of newer ones. */
export function belongsTo([newest]: readonly AuditEntry[], entry: AuditEntry): boolean {
  if (newest === undefined) return false;
  if (isSet(newest)) return entry.change_id !== undefined && entry.change_id === newest.change_id;
  const isSame = entry.operation === newest.operation && actionText(entry) === actionText(newest);
  const isAlone = entry.change_id === undefined && newest.change_id === undefined;
  return entry.operation === 'createDevice' && isSame && isAlone && actorName(entry) === actorName(newest);
}

const shownNames = 5;
const namesOf = (entries: readonly AuditEntry[], names: Names): string => {
  const all = entries.map((entry) => sentenceOf(entry, names).subject);
  const more = all.length - shownNames;
  return listOf(more <= 0 ? all : [...all.slice(0, shownNames), `${more} more`]);
};

const verbs = [
  ['created', /^create/],
  ['deleted', /^delete/],
  ['changed', /^(?!create|delete|replacePolicyTests)/],
] as const;

/** `created web and app, changed database`. */
function deedsOf(parts: readonly AuditEntry[], names: Names): string {
  const deeds = verbs.flatMap(([verb, pattern]) => {
    const found = parts.filter(({ operation }) => pattern.test(operation));
    return found.length === 0 ? [] : [`${verb} ${namesOf(found, names)}`];
  });
  return [
    ...deeds,
    ...(parts.some(({ operation }) => operation === 'replacePolicyTests') ? ['changed the policy tests'] : []),
  ].join(', ');
}

/** What entries that are told together did, the newest first. */
function sentenceOfAll([first, ...rest]: ToldTogether, names: Names): string {
  const parts = rest.toReversed();
  if (isSet(first)) {
    const id = shortId(first.subject_id ?? '');
    const verb = first.operation === 'applyChanges' ? 'applied change' : 'undid a change, as change';
    const [only] = parts;
    if (only !== undefined && parts.length === 1 && first.operation === 'applyChanges')
      return `${sentenceText(sentenceOf(only, names))} (change ${id})`;
    return parts.length === 0 ? `${verb} ${id}` : `${verb} ${id}: ${deedsOf(parts, names)}`;
  }
  if (parts.length === 0) return sentenceText(sentenceOf(first, names));
  return `${actionText(first)}s ${namesOf([...parts, first], names)}`;
}

/** A line of entries that are told together, the newest first. */
export const logLine = (entries: ToldTogether, names: Names): LogLine => ({
  ...entries[0],
  sentence: sentenceOfAll(entries, names),
});
