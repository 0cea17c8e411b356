/** Holds the threat model to its word: every line names a test that exists, by its title or the beginning of it. */
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { hasTitle } from './lib/docs.ts';

const top = fileURLToPath(new URL('..', import.meta.url));
const rows = readFileSync(`${top}docs/threat-model.md`, 'utf8')
  .split('\n')
  .filter((line) => line.includes('|') && !/^(?:Can|Cannot) \|/.test(line) && line !== '---|---');

it('the threat model has lines, and each names one test that exists, by file and title', () => {
  expect(rows.length).toBeGreaterThan(300);
  const wrong = rows.filter((row) => {
    const [, path, title] = /^[^|]+ \| ((?:src|test)\/\S+\.test\.ts): (.+)$/.exec(row) ?? [];
    if (path === undefined || title === undefined || !existsSync(`${top}${path}`)) return true;
    return !hasTitle(readFileSync(`${top}${path}`, 'utf8'), title);
  });
  expect(wrong).toEqual([]);
});
