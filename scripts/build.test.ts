/** Proves that Ctrl-C ends a build with one line, and leaves nothing of it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));

it('an interrupted build says so in one line and leaves nothing', async () => {
  // In a group of its own, which the signal reaches as a whole, as from a terminal.
  const build = spawn(process.execPath, ['scripts/build.mjs', 'server'], { cwd: root, detached: true });
  let said = '';
  build.stderr.on('data', (part: Buffer) => {
    said += part.toString();
    if (said === 'setup: building the program and the web UI\n') process.kill(-(build.pid ?? 0), 'SIGINT');
  });
  const [code] = await once(build, 'close');
  expect({ code, said }).toEqual({
    code: 130,
    said: 'setup: building the program and the web UI\nsetup: interrupted\n',
  });
  expect(readdirSync(root).filter((name) => name === `dist.${build.pid}`)).toEqual([]);
});
