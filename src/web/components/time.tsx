/** Owns the wording of times: how long ago, with the exact time in a title. */
import type { PointerEvent, ReactNode } from 'react';

interface Unit {
  /** How many of it make one of the next. */
  readonly size: number;
  readonly one: string;
  readonly many: string;
}

// Words of our own: the browser's formatters take longer to load than the rest of a page takes to draw.
const units: readonly Unit[] = [
  { size: 60, one: 'sec.', many: 'sec.' },
  { size: 60, one: 'min.', many: 'min.' },
  { size: 24, one: 'hr.', many: 'hr.' },
  { size: 30, one: 'day', many: 'days' },
  { size: 12, one: 'month', many: 'months' },
  { size: Number.POSITIVE_INFINITY, one: 'year', many: 'years' },
];

export function ago(then: number, now: number): string {
  const isPast = then < now;
  let amount = Math.round(Math.abs(then - now) / 1000);
  if (amount < 5) return 'now';
  for (const { size, one, many } of units) {
    if (amount >= size) {
      amount = Math.round(amount / size);
      continue;
    }
    if (one === 'day' && amount === 1) return isPast ? 'yesterday' : 'tomorrow';
    const words = `${amount} ${amount === 1 ? one : many}`;
    return isPast ? `${words} ago` : `in ${words}`;
  }
  return '';
}

const twoDigits = (number: number): string => String(number).padStart(2, '0');

/** A time of day, with the date unless it is today: `14:05`, `2026-11-18 14:05`. */
export function clockTime(then: number, now: number): string {
  const at = new Date(then);
  const time = `${twoDigits(at.getHours())}:${twoDigits(at.getMinutes())}`;
  if (at.toDateString() === new Date(now).toDateString()) return time;
  return `${at.getFullYear()}-${twoDigits(at.getMonth() + 1)}-${twoDigits(at.getDate())} ${time}`;
}

/** The exact time as a title, written when the pointer is there: the browser's formatter takes a phone 100 ms to load. */
export const showExact = ({ currentTarget }: PointerEvent<HTMLTimeElement>): void => {
  currentTarget.title = new Date(currentTarget.dateTime).toLocaleString();
};

export function Ago({ at }: { readonly at: string | number }): ReactNode {
  const then = new Date(at);
  return (
    <time dateTime={then.toISOString()} onPointerEnter={showExact}>
      {ago(then.getTime(), Date.now())}
    </time>
  );
}
