/** Proves that Ctrl-C ends a build with one line, and leaves nothing of it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { eventually } from '../test/lib/eventually.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

it.each(['it begins', 'it writes'])(
  'a build that is interrupted when %s says so in one line and leaves nothing',
  async (moment) => {
    // In a group of its own, which the signal reaches as a whole, as from a terminal.
    const build = spawn(process.execPath, ['scripts/build.mjs', 'server'], { cwd: root, detached: true });
    const folder = join(root, `dist.${build.pid}`);
    const closed = once(build, 'close');
    let said = '';
    build.stderr.on('data', (part: Buffer) => {
      said += part.toString();
    });
    await eventually('the build has begun', () => (moment === 'it begins' ? said !== '' : existsSync(folder)));
    process.kill(-(build.pid ?? 0), 'SIGINT');
    const [code] = await closed;
    expect({ code, said }).toEqual({
      code: 130,
      said: 'setup: building the program and the web UI\nsetup: interrupted\n',
    });
    expect(existsSync(folder)).toBe(false);
  },
);
