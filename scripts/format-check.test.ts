/** Proves that the quick check of the format refuses what Prettier refuses: files of every kind that differ, and those that cannot be read. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';

const top = fileURLToPath(new URL('..', import.meta.url));
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'rf-format-'));
  for (const file of ['.prettierrc.json', '.prettierignore', '.oxfmtrc.json'])
    cpSync(join(top, file), join(folder, file));
  mkdirSync(join(folder, 'bin'));
  write('bin/tool', "#!/usr/bin/env node\nimport './good.mjs';\n");
  write('good.ts', "export const good = 'good';\n");
  // Too long for one line: Prettier and oxfmt break it differently, and either way is formatted.
  const [one, two] = [
    "{ readonly kind: 'generation'; readonly generation: string }",
    "{ readonly kind: 'lost'; readonly why: string }",
  ];
  write('prettier.ts', `export type Event =\n  ${one} | ${two};\n`);
  write('oxfmt.ts', `export type Event =\n  | ${one}\n  | ${two};\n`);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const write = (name: string, text: string): void => writeFileSync(join(folder, name), text);
const check = (home = top) => {
  const { status, stderr } = spawnSync(process.execPath, [join(home, 'scripts/format-check.mjs')], {
    cwd: folder,
    encoding: 'utf8',
    // Prettier colours what it says where CI is set, into a pipe too.
    env: { ...process.env, NO_COLOR: '1', FORCE_COLOR: undefined },
  });
  return {
    status,
    named: new Set([...stderr.matchAll(/^\[(?:warn|error)\] ([\w./]+)(?::|$)/gm)].map(([, name]) => name)),
  };
};

it('formatted files are good, whichever of the two breaks their lines', () => {
  expect(check()).toEqual({ status: 0, named: new Set() });
});

it('a file that differs is named, whatever its kind, and so is one that cannot be read', () => {
  const wrong = {
    'wrong.ts': 'export  const a = 1;\n',
    'wrong.css': 'a{b:c}\n',
    'wrong.yml': 'a:   1\n',
    'wrong.json': '{"a":1}\n',
  };
  for (const [name, text] of Object.entries(wrong)) write(name, text);
  write('bin/wrong', '#!/usr/bin/env node\nlet  x;\n');
  const names = [...Object.keys(wrong), 'bin/wrong'];
  expect(check()).toEqual({ status: 1, named: new Set(names) });
  write('unreadable.ts', 'export const a = {\n');
  const all = check();
  expect(all.status).toBe(2);
  for (const name of [...names, 'unreadable.ts']) expect(all.named).toContain(name);
});

it('where oxfmt does not run, Prettier judges everything', () => {
  const home = join(folder, 'node_modules/home');
  mkdirSync(join(home, 'scripts'), { recursive: true });
  mkdirSync(join(home, 'node_modules/.bin'), { recursive: true });
  cpSync(join(top, 'scripts/format-check.mjs'), join(home, 'scripts/format-check.mjs'));
  symlinkSync(join(top, 'node_modules/.bin/prettier'), join(home, 'node_modules/.bin/prettier'));
  write('wrong.ts', 'export  const a = 1;\n');
  const { status, named } = check(home);
  expect(status).not.toBe(0);
  expect(named).toContain('wrong.ts');
});
