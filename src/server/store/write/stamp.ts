/** Owns the id and the time of a new record. The caller passes in their sources. */

export interface Stamps {
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  readonly newId: () => string;
}

/** The last second that was asked for, as `2026-11-16T07:09:35.`: to write out a date takes longer than the rest of a write's values. */
let lastSecond = Number.NaN;
let lastText = '';

export function now({ clock }: Pick<Stamps, 'clock'>): string {
  const time = Math.floor(clock());
  const second = Math.floor(time / 1000) * 1000;
  if (second !== lastSecond) {
    lastText = new Date(second).toISOString().slice(0, -4);
    lastSecond = second;
  }
  return `${lastText}${String(time - second).padStart(3, '0')}Z`;
}
