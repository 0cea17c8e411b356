/** Owns how much of a list fits into one answer that is worked out (reference 8 (15)). */
import { limits } from '../../api/limits.ts';

/** The first items as JSON: as many as have room together, and one at least. The caller can do other work between two steps. */
export function* textsThatFit(
  items: Iterable<unknown>,
  most: number = limits.answer,
): Generator<void, readonly string[], undefined> {
  const texts: string[] = [];
  let bytes = 2;
  for (const item of items) {
    const text = JSON.stringify(item);
    bytes += Buffer.byteLength(text) + 1;
    if (bytes > most && texts.length > 0) break;
    texts.push(text);
    yield;
  }
  return texts;
}
