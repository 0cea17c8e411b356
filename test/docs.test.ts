/** Keeps the docs true to themselves: links lead somewhere, and every clause that is cited exists. */
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { anchorsOf, citationsIn, clausesOf, hasTitle, linksIn } from './lib/docs.ts';

const top = fileURLToPath(new URL('..', import.meta.url));
const read = (path: string): string => readFileSync(`${top}${path}`, 'utf8');
const filesIn = (folder: string, ending: RegExp): readonly string[] =>
  readdirSync(`${top}${folder}`, { recursive: true, encoding: 'utf8' })
    .map((path) => `${folder}/${path}`)
    .filter((path) => ending.test(path) && !path.includes('node_modules'));
const isThere = (path: string): boolean => statSync(`${top}${path}`, { throwIfNoEntry: false }) !== undefined;

const pages = [
  ...readdirSync(top).filter((name) => name.endsWith('.md')),
  ...filesIn('docs', /\.md$/),
  ...filesIn('bench', /\.md$/),
];
const clauses = clausesOf(read('docs/reference.md'));

describe('the docs', () => {
  it('link only to files and headings that exist', () => {
    const broken = pages.flatMap((page) =>
      linksIn(page, read(page))
        .filter(({ file, anchor }) => !isThere(file) || (anchor !== undefined && !anchorsOf(read(file)).has(anchor)))
        .map(({ file, anchor }) => `${page} → ${file}${anchor === undefined ? '' : `#${anchor}`}`),
    );
    expect(broken).toEqual([]);
  });

  it('number the clauses of 1.2 and 4.3 without a hole', () => {
    for (const [section, last] of [['1.2', 22] as const, ['4.3', 18] as const]) {
      for (let n = 1; n <= last; n += 1) expect(clauses).toContain(`${section} (${n})`);
    }
  });

  it('have every clause that code and tests cite', () => {
    const own = new Set(['test/docs.test.ts', 'test/lib/docs.ts']);
    const sources = ['src', 'test', 'bench', 'scripts'].flatMap((folder) => filesIn(folder, /\.(ts|tsx|mjs|sql)$/));
    const unknown = sources
      .filter((path) => !own.has(path))
      .flatMap((path) => citationsIn(read(path)).map((clause) => ({ path, clause })))
      .filter(({ clause }) => !clauses.has(clause))
      .map(({ path, clause }) => `${path} cites ${clause}`);
    expect(unknown).toEqual([]);
  });
});

describe('the tests', () => {
  it('name every clause of what a device enforces, 1.2 (1) to (15)', () => {
    const tests = ['src', 'test'].flatMap((folder) => filesIn(folder, /\.test\.ts$/));
    const named = new Set(
      tests.filter((path) => path !== 'test/docs.test.ts').flatMap((path) => citationsIn(read(path))),
    );
    for (let n = 1; n <= 15; n += 1) expect(named).toContain(`1.2 (${n})`);
  });
});

describe('the page of clauses and tests', () => {
  const rows = read('docs/clauses.md')
    .split('\n')
    .flatMap((line) => {
      const [, clause, path, title] = /^(\d[^|]*?) \| (\S+\.test\.ts): (.+)$/.exec(line) ?? [];
      return clause === undefined || path === undefined || title === undefined ? [] : [{ clause, path, title }];
    });

  it('has a line for every clause of policy by name', () => {
    const sections = ['1.3', '1.4', '2.12', '2.13'];
    const single = ['2.5 (1)', '4.2 (1)', '4.4 (2)', '4.4 (4)', '4.4 (5)', '4.4 (6)', '5 (14)', '8 (11)'];
    const all = [...clauses].filter((clause) => sections.some((section) => clause.startsWith(`${section} (`)));
    expect(all.length).toBeGreaterThan(20);
    const named = new Set(rows.map(({ clause }) => clause));
    expect([...all, ...single].filter((clause) => !named.has(clause))).toEqual([]);
    expect([...named].filter((clause) => !clauses.has(clause))).toEqual([]);
  });

  it('names tests that exist, by file and title', () => {
    const lines = read('docs/clauses.md').split('\n');
    expect(lines.filter((line) => / \| (?!Test$)/.test(line))).toHaveLength(rows.length);
    const missing = rows.filter(({ path, title }) => !isThere(path) || !hasTitle(read(path), title));
    expect(missing).toEqual([]);
  });
});

describe('reading the docs', () => {
  it('finds clauses by heading, number and letter', () => {
    const text =
      '## 1. One\n\n1. first\n2. second\n   - (a) deep\n\n### 1.1 Inner\n\n- (a) lettered\n\ntext 3. no clause\n';
    expect([...clausesOf(text)]).toEqual(['1', '1 (1)', '1 (2)', '1 (2) (a)', '1.1', '1.1 (a)']);
  });

  it.each([
    ['// reference 1.2 (9)', ['1.2', '1.2 (9)']],
    ['(reference 1.1 phase III, 1.2 (9)).', ['1.1', '1.2', '1.2 (9)']],
    ['(reference 1.2 (2), (3) and 7 (1))', ['1.2', '1.2 (2)', '1.2 (3)', '7', '7 (1)']],
    ['reference 1.2 (4)–(8).', ['1.2', '1.2 (4)', '1.2 (8)']],
    ['reference 1.2 (15) (b): so it is', ['1.2', '1.2 (15)', '1.2 (15) (b)']],
    ['/**\n * As told (reference 2.5,\n * 2.6, 6).\n */', ['2.5', '2.6', '6']],
    ['in reference to 4 things', []],
  ])('finds the citations of %j', (text, expected) => {
    expect(citationsIn(text)).toEqual(expected);
  });

  it('finds a title, whole or by a beginning that no other title has', () => {
    const file = "it('a door opens', () => {});\nit(\n  'a door shuts', () => {});\n";
    const titles = ['a door opens', 'a door shuts', 'a door o', 'a door …', 'a window …'];
    expect(titles.filter((title) => hasTitle(file, title))).toEqual(['a door opens', 'a door shuts']);
    expect(hasTitle(file.replace('shuts', 'that shuts'), 'a door that …')).toBe(true);
  });

  it('finds links inside the repository, and the anchors of headings', () => {
    const text = 'See [a](../README.md#the-status) and [b](#x), not [c](https://example.org) or `[d](e.md)`.';
    expect(linksIn('docs/page.md', text)).toEqual([
      { file: 'README.md', anchor: 'the-status' },
      { file: 'docs/page.md', anchor: 'x' },
    ]);
    expect([...anchorsOf('# The status\n\n## 1.2 What `it` does, then\n')]).toEqual([
      'the-status',
      '12-what-it-does-then',
    ]);
  });
});
