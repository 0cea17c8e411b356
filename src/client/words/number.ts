/**
 * Owns the wording of numbers: grouped by thousands, or short. The browser's formatters take longer to load than a page takes to
 * render.
 */

/** 12345 is 12,345. */
export function grouped(count: number): string {
  const digits = String(Math.abs(Math.round(count)));
  let text = digits.slice(-3);
  for (let end = digits.length - 3; end > 0; end -= 3) text = `${digits.slice(Math.max(0, end - 3), end)},${text}`;
  return count < 0 ? `-${text}` : text;
}

const sizes = ['', 'K', 'M', 'B', 'T'] as const;

/** 1.2K, 3.4M. */
export function compactCount(count: number): string {
  let [value, size] = [count, 0];
  while (Math.round(value * 10) >= 10_000 && size < sizes.length - 1) {
    value /= 1_000;
    size += 1;
  }
  return `${String(Math.round(value * 10) / 10)}${sizes[size] ?? ''}`;
}

/** `1 device`, `12,345 devices`. */
export const plural = (count: number, noun: string, nouns = `${noun}s`): string =>
  `${grouped(count)} ${count === 1 ? noun : nouns}`;

/** A revision as people tell it from others: after a restore it has 13 digits, and the last six do. */
export const shortRevision = (revision: number): string =>
  revision < 1_000_000_000 ? String(revision) : `…${String(revision).slice(-6)}`;
