/** Proves that the check of the format refuses files of every kind that differ, and those that cannot be read. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { expect, it } from 'vitest';

const top = fileURLToPath(new URL('..', import.meta.url));
const wrong = {
  'wrong.ts': 'export  const a = 1;\n',
  'wrong.tsx': 'export  const a = <a/>;\n',
  'wrong.mjs': 'export  const a = 1;\n',
  'wrong.css': 'a{b:c}\n',
  'wrong.html': '<p  a=1></p>\n',
  'wrong.yml': 'a:   1\n',
  'wrong.json': '{"a":1}\n',
  'bin/ringfence': '#!/usr/bin/env node\nlet  x;\n',
};

it('a file that differs is named, whatever its kind, and so is one that cannot be read', () => {
  const folder = mkdtempSync(join(tmpdir(), 'rf-format-'));
  const check = () =>
    spawnSync(process.execPath, [join(top, 'node_modules/.bin/oxfmt'), '--check'], { cwd: folder, encoding: 'utf8' });
  try {
    cpSync(join(top, '.oxfmtrc.json'), join(folder, '.oxfmtrc.json'));
    writeFileSync(join(folder, 'good.ts'), "export const good = 'good';\n");
    expect(check().status).toBe(0);
    mkdirSync(join(folder, 'bin'));
    for (const [name, text] of Object.entries(wrong)) writeFileSync(join(folder, name), text);
    const { status, stdout } = check();
    expect(status).toBe(1);
    const named = [...stripVTControlCharacters(stdout).matchAll(/^([\w./]+) \(\d+ms\)$/gm)].map(([, name]) => name);
    expect(new Set(named)).toEqual(new Set(Object.keys(wrong)));
    writeFileSync(join(folder, 'unreadable.ts'), 'export const a = {\n');
    const broken = check();
    expect(broken.status).not.toBe(0);
    expect(broken.stderr).toContain('unreadable.ts');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
