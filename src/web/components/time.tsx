/** Owns moments in words: how long ago, with the exact time at hand. */
import type { ReactNode } from 'react';

const steps: readonly (readonly [number, Intl.RelativeTimeFormatUnit])[] = [
  [60, 'second'],
  [60, 'minute'],
  [24, 'hour'],
  [30, 'day'],
  [12, 'month'],
  [Number.POSITIVE_INFINITY, 'year'],
];
const near = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'short' });
/** "next mo." is nobody's word for 30 days. */
const far = new Intl.RelativeTimeFormat('en', { numeric: 'always', style: 'long' });

export function ago(then: number, now: number): string {
  let amount = Math.round((then - now) / 1000);
  if (Math.abs(amount) < 5) return 'now';
  for (const [size, unit] of steps) {
    if (Math.abs(amount) < size) return (unit === 'month' || unit === 'year' ? far : near).format(amount, unit);
    amount = Math.round(amount / size);
  }
  return '';
}

export function Ago({ at }: { readonly at: string | number }): ReactNode {
  const then = new Date(at);
  return (
    <time dateTime={then.toISOString()} title={then.toLocaleString()}>
      {ago(then.getTime(), Date.now())}
    </time>
  );
}
