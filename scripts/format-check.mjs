/** Checks that every file is formatted, as `npm run format:check` does. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const oxfmt = fileURLToPath(new URL('../node_modules/.bin/oxfmt', import.meta.url));
process.exitCode = spawnSync(process.execPath, [oxfmt, '--check'], { stdio: 'inherit' }).status ?? 1;
