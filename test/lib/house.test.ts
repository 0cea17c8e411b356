/** Proves the measures of the house: a circle, a crowded folder and a long file are found, and only those. */
import { describe, expect, it } from 'vitest';
import { circlesBetween, privateUses } from './house.ts';
import type { Source } from './layers.ts';

const file = (path: string, ...imports: string[]): Source => ({
  path,
  text: imports.map((target) => `import { x } from '${target}';\n`).join(''),
});

describe('circles between files', () => {
  it('are found over two files and over several, each once, with the files in order', () => {
    const sources = [
      file('src/a.ts', './b.ts'),
      file('src/b.ts', './a.ts', './deep/c.ts'),
      file('src/deep/c.ts', './d.ts'),
      file('src/deep/d.ts', '../e.ts', 'node:fs'),
      file('src/e.ts', './deep/c.ts'),
    ];
    expect(circlesBetween(sources)).toEqual([
      ['src/deep/c.ts', 'src/deep/d.ts', 'src/e.ts'],
      ['src/a.ts', 'src/b.ts'],
    ]);
  });

  it.each([
    ['a type', "import type { B } from './b.ts';"],
    ['a type in place', "export let b: import('./b.ts').B;"],
    ['a re-export', "export * from './b.ts';"],
    ['a dynamic import', "const b = await import('./b.ts');"],
  ])('are found where the way back is %s', (_, text) => {
    expect(circlesBetween([{ path: 'src/a.ts', text }, file('src/b.ts', './a.ts')])).toHaveLength(1);
  });

  it('are found where a file imports itself', () => {
    expect(circlesBetween([file('src/a.ts', './a.ts')])).toEqual([['src/a.ts']]);
  });

  it('are not seen where two ways lead to one file, nor in words that only look like imports', () => {
    const sources = [
      file('src/a.ts', './b.ts', './c.ts'),
      file('src/b.ts', './d.ts'),
      file('src/c.ts', './d.ts', './b.ts'),
      { path: 'src/d.ts', text: "// import './a.ts';\nexport const text = `import './a.ts'`;\n" },
    ];
    expect(circlesBetween(sources)).toEqual([]);
  });
});

describe('private parts of Node and of packages', () => {
  it.each([
    'socket._handle.fd',
    'client?._send(text)',
    'const { _handle: handle } = socket;',
    'type Private = Socket & { _handle?: object };',
    "socket['_events']",
    'Object.assign(lines, { _writeToOutput: () => undefined });',
    "process.binding('tcp_wrap')",
  ])('are found: %s', (text) => {
    expect(privateUses([{ path: 'src/a.ts', text }])).toHaveLength(1);
  });

  it('are not seen in parameters that are not used, nor in names of ours', () => {
    const text = "const f = (_org: string, _n = 1) => a_b.c_d + snake_case.x; const target = '_blank';";
    expect(privateUses([{ path: 'src/a.ts', text }])).toEqual([]);
  });
});
