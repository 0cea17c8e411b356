/** Holds the threat model to its word: every line names a test that exists, by its title or the beginning of it. */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const top = fileURLToPath(new URL('..', import.meta.url));
const rows = readFileSync(`${top}docs/threat-model.md`, 'utf8')
  .split('\n')
  .filter((line) => line.startsWith('|') && !/^\| (Can|Cannot) +\|/.test(line) && !/^\|[ -]+\|/.test(line));

it('the threat model has lines, and each names one test that exists, by file and title', () => {
  expect(rows.length).toBeGreaterThan(20);
  const wrong = rows.filter((row) => {
    const [, path, title] = /\| ((?:src|test)\/\S+\.test\.ts): (.+?) +\|$/.exec(row) ?? [];
    if (path === undefined || title === undefined || !existsSync(`${top}${path}`)) return true;
    // The formatter puts a long title on a line of its own, and one with an apostrophe between double quotes.
    const text = readFileSync(`${top}${path}`, 'utf8').replaceAll(/\(\s+(?=['"])/g, '(');
    // A title that ends with `…` is the beginning of one title, and of no other in the file.
    if (title.endsWith(' …')) {
      const beginning = title.slice(0, -1);
      return text.split(`('${beginning}`).length + text.split(`("${beginning}`).length !== 3;
    }
    return !text.includes(`('${title}',`) && !text.includes(`("${title}",`);
  });
  expect(wrong).toEqual([]);
});
