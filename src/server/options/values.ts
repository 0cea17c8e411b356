/**
 * Owns the parsing of option values that are numbers, words, lists and paths. A parser throws an error with one
 * sentence about the value.
 */
import { resolve } from 'node:path';

export function whole(text: string, least: number, most: number): number {
  const number = /^\d{1,15}$/.test(text.trim()) ? Number(text) : Number.NaN;
  if (!(number >= least && number <= most)) throw new Error(`It must be a whole number from ${least} to ${most}.`);
  return number;
}

export const between =
  (least: number, most: number) =>
  (text: string): number =>
    whole(text, least, most);

const secondsOf = { s: 1, m: 60, h: 3_600, d: 86_400 } as const;
const longestSeconds = 36_500 * secondsOf.d;

/** A duration such as 30d or 12h, in seconds. */
export function readSeconds(text: string): number {
  const [, number, unit = 's'] = /^(\d{1,12})([smhd])?$/.exec(text.trim()) ?? [];
  const seconds = Number(number) * secondsOf[unit as keyof typeof secondsOf];
  if (number === undefined || (unit === 's' && seconds > 0 && !text.includes('s')) || seconds > longestSeconds)
    throw new Error('It must be a duration such as 30d, 12h or 90m, or 0.');
  return seconds;
}

export function oneOf<T extends string>(choices: readonly T[]): (text: string) => T {
  return (text) => {
    const choice = choices.find((known) => known === text);
    if (choice === undefined) throw new Error(`It must be one of ${choices.join(', ')}.`);
    return choice;
  };
}

/** A list in one value: by commas, because that fits a variable of the environment too. */
export const readList = (text: string): readonly string[] => {
  const items = text.split(',').map((item) => item.trim());
  if (items.includes('')) throw new Error('It must be one value, or several values separated by commas.');
  return [...new Set(items)];
};

/** A word that looks like an option was meant as one: its value was forgotten. `./-x` names such a file all the same. */
export function readPath(text: string): string {
  if (text === '' || text.startsWith('-')) throw new Error('It must be a path.');
  return resolve(text);
}
