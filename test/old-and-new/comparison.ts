/**
 * Owns the comparison of what two servers say of the same commands: ids, times and secrets differ by nature, everything else must be
 * equal. An id of the one stands for exactly one id of the other, from the first answer that shows both.
 */
import type { Json } from '../lib/http.ts';
import type { Difference } from './commands.ts';
import { isNewEntry, isNewField } from './justified.ts';

/** Also hashes of what contains ids. */
const id = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b|\b[0-9a-f]{64}\b/g;
const times = /\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z/g;
const secrets = /rf_(user|device|enroll)_[\w-]+/g;
/** Where a resume goes on: names the era of the database. */
const resumeTokens = /"token":"[\w-]+"/g;

export class IdPairs {
  readonly #toNew = new Map<string, string>();
  readonly #toOld = new Map<string, string>();

  /** Whether the two may stand for each other; from then on they do. */
  pair(old: string, other: string): boolean {
    const [known, back] = [this.#toNew.get(old), this.#toOld.get(other)];
    if (known === undefined && back === undefined) {
      this.#toNew.set(old, other);
      this.#toOld.set(other, old);
      return true;
    }
    return known === other && back === old;
  }

  /** A text for the old server, as the new one must be told it. */
  translate(text: string): string {
    return text.replace(id, (one) => this.#toNew.get(one) ?? one);
  }

  /** Everything in which two answers differ, at most so many places. */
  differences(old: Json, other: Json, most = 20): readonly Difference[] {
    const found: Difference[] = [];
    const walk = (a: Json, b: Json, path: string): void => {
      if (found.length >= most) return;
      if (typeof a === 'string' && typeof b === 'string') {
        if (!this.#isSameText(a, b)) found.push({ path, old: a, new: b });
      } else if (Array.isArray(a) && Array.isArray(b)) {
        const known = b.filter((each) => !isNewEntry(each));
        if (a.length !== known.length) found.push({ path: `${path}.length`, old: a.length, new: known.length });
        a.slice(0, known.length).forEach((each, index) => walk(each, known[index], `${path}/${index}`));
      } else if (typeof a === 'object' && typeof b === 'object' && a !== null && b !== null) {
        // Ids are keys too.
        const missing = new Set(Object.keys(b));
        for (const key of Object.keys(a)) {
          const translated = this.translate(key);
          missing.delete(translated);
          walk(a[key], b[translated], `${path}/${key}`);
        }
        for (const key of missing)
          if (!isNewField(key)) found.push({ path: `${path}/${key}`, old: undefined, new: b[key] });
      } else if (a !== b) found.push({ path, old: a, new: b });
    };
    walk(old, other, '');
    return found;
  }

  #isSameText(a: string, b: string): boolean {
    const [mine, others] = [a.match(id) ?? [], b.match(id) ?? []];
    return skeleton(a) === skeleton(b) && mine.every((one, index) => this.pair(one, others[index] ?? ''));
  }
}

const skeleton = (text: string): string =>
  text
    .replace(id, '(id)')
    .replace(times, '(time)')
    .replace(secrets, '(secret)')
    .replace(resumeTokens, '"token":"(token)"');
