/**
 * Owns how enforcement is shown on a terminal: the counts in a line, the exceptions as a table, and what to do about
 * them.
 */
import type { Convergence, PendingDevice } from '../../api/enforcement/convergence.ts';
import { inForceAdvice, inForceMeanings, inForceTitles, mostUrgentFirst } from '../../api/enforcement/in-force.ts';
import { compareNames } from '../../policy/names/compare-names.ts';
import { renderTable, type Layout } from '../terminal/table.ts';
import { agoWords } from '../terminal/time.ts';

type Counts = Omit<Convergence, 'pending' | 'revision'>;

/** Those that are not in force, by word, the most urgent first. */
const exceptionCounts = (counts: Counts): string =>
  mostUrgentFirst
    .flatMap((word) => (word === 'yes' || counts[word] === 0 ? [] : [`${counts[word]} ${inForceTitles[word]}`]))
    .join(', ');

/** `in force on 7 of 10 devices (1 failed, 2 offline)`. */
export function countsLine(counts: Counts): string {
  const rest = exceptionCounts(counts);
  const devices = devicesInWords(counts.devices);
  return `in force on ${counts.in_force} of ${devices}${rest === '' ? '' : ` (${rest})`}`;
}

const devicesInWords = (count: number): string => `${count} device${count === 1 ? '' : 's'}`;

const shownNames = 5;

/** `2 devices are away and will follow: web-1, web-2.`; undefined where none is away. */
export function awayLine({ pending, offline }: Convergence): string | undefined {
  if (offline === 0) return undefined;
  const names = pending.filter(({ in_force }) => in_force === 'offline').map(nameOfPending);
  const shown = names.slice(0, shownNames);
  const more = offline > shown.length ? ` and ${offline - shown.length} more` : '';
  const verb = offline === 1 ? 'is away and will follow' : 'are away and will follow';
  return `${devicesInWords(offline)} ${verb}: ${shown.join(', ')}${more}.`;
}

const nameOfPending = ({ hostname, device_id }: PendingDevice): string => (hostname === '' ? device_id : hostname);

const urgency = ({ in_force }: PendingDevice): number => mostUrgentFirst.indexOf(in_force);

export const mostUrgent = (pending: readonly PendingDevice[]): readonly PendingDevice[] =>
  pending.toSorted((a, b) => urgency(a) - urgency(b) || compareNames(a.hostname, b.hostname));

export const lastSeenWords = (last_seen_at: string | undefined, now: number): string =>
  last_seen_at === undefined ? 'never' : agoWords(last_seen_at, now);

/** What to do about them, once for each word that is there. */
export const adviceLines = (pending: readonly PendingDevice[]): readonly string[] =>
  mostUrgentFirst.flatMap((word) => {
    const advice = pending.some(({ in_force }) => in_force === word) ? inForceAdvice[word] : undefined;
    return advice === undefined ? [] : [`${inForceTitles[word]}: ${advice}`];
  });

/** The exceptions, with what is known of each. */
export const renderExceptions = (pending: readonly PendingDevice[], now: number, layout: Layout): string =>
  renderTable(
    [
      { head: 'STATE', text: ({ in_force }) => inForceTitles[in_force] },
      { head: 'DEVICE', text: nameOfPending },
      { head: 'LAST SEEN', text: ({ last_seen_at }) => lastSeenWords(last_seen_at, now) },
      { head: 'WHY', text: ({ detail, in_force }) => detail ?? inForceMeanings[in_force] },
    ],
    pending,
    layout,
  );
