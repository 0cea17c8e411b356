/** Owns which entries the activity page shows: by words, person, device, group and day, all from the URL. */
import type { AuditEntry } from '../../api/audit.ts';
import { isUuid } from '../../policy/ids.ts';

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

/** Leaves out what has no meaning. */
export function parseActivitySearch(search: Readonly<Record<string, unknown>>): ActivitySearch {
  const given = names.flatMap((name) => {
    const value = search[name];
    const text = typeof value === 'number' ? String(value) : value;
    return typeof text === 'string' && text !== '' && (name !== 'day' || /^\d{4}-\d\d-\d\d$/.test(text))
      ? [[name, text] as const]
      : [];
  });
  return Object.fromEntries(given);
}

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
