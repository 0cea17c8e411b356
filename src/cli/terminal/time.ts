/** Owns times as users type and read them. */
import { usageError } from './exit.ts';

const units: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** `90d`, `12h`, `30m` from now, or a time; as the server takes it. */
export function readExpiry(text: string, now: number): string {
  const span = /^(\d{1,6})([smhdw])$/.exec(text.trim());
  if (span !== null) return new Date(now + Number(span[1]) * (units[span[2] ?? ''] ?? 0)).toISOString();
  const time = /^\d{4}-\d{2}-\d{2}/.test(text.trim()) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(time)) {
    throw usageError(`\`${text}\` is not a time: give one like 2030-01-31T00:00:00Z, or 90d, 12h, 30m from now`);
  }
  return new Date(time).toISOString();
}

/** A moment in the past, in milliseconds: a time, a day, or 90d, 12h, 30m ago. A time without a zone is local. */
export function readPastTime(text: string, now: number): number {
  const span = /^(\d{1,6})([smhdw])$/.exec(text.trim());
  if (span !== null) return now - Number(span[1]) * (units[span[2] ?? ''] ?? 0);
  const given = text.trim();
  // A day alone would be read as UTC.
  const time = Date.parse(/^\d{4}-\d{2}-\d{2}$/.test(given) ? `${given}T00:00` : /^\d{4}-/.test(given) ? given : '');
  if (!Number.isNaN(time)) return time;
  throw usageError(
    `\`${text}\` is not a time: give one like 2026-11-09, 2026-11-09T10:00, or 90d, 12h, 30m for that long ago`,
  );
}

/** Without fractions of a second. */
export const shortTime = (time: string | undefined): string => (time ?? '').replace(/\.\d{1,9}Z$/, 'Z');

/** `30s`, `2m`, `1h` as milliseconds; a number alone is seconds. Undefined where the text is none of these. */
export function durationMs(text: string): number | undefined {
  const span = /^(\d{1,6})([smh]?)$/.exec(text.trim());
  return span === null ? undefined : Number(span[1]) * (units[span[2] === '' ? 's' : (span[2] ?? 's')] ?? 1_000);
}

/** The duration of `--wait`. */
export function readDuration(text: string): number {
  const ms = durationMs(text);
  if (ms === undefined) throw usageError(`\`${text}\` is not a duration: give one like 30s or 2m, written --wait=30s`);
  return ms;
}

/** `1 min 40 s`, `2 h 5 min`: two units at most. */
export function spanWords(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  const [hours, minutes] = [Math.floor(seconds / 3_600), Math.floor((seconds % 3_600) / 60)];
  const parts = [
    ...(hours > 0 ? [`${hours} h`] : []),
    ...(minutes > 0 ? [`${minutes} min`] : []),
    ...(hours === 0 && (minutes === 0 || seconds % 60 > 0) ? [`${seconds % 60} s`] : []),
  ];
  return parts.join(' ');
}

const spans: readonly (readonly [number, string])[] = [
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'min'],
];

/** How long ago, in the largest unit that fits. */
export function agoWords(time: string, now: number): string {
  const seconds = Math.max(0, Math.round((now - Date.parse(time)) / 1_000));
  const [size, unit] = spans.find(([least]) => seconds >= least) ?? [1, 's'];
  return seconds < 5 ? 'now' : `${Math.floor(seconds / size)} ${unit} ago`;
}
