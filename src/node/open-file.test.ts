/** Proves that a file with a secret which is open to others is told, and how to close it. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { openFileWarning } from './open-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'ringfence-open-'));
const file = join(folder, 'token');
writeFileSync(file, 'x');
afterAll(() => rmSync(folder, { recursive: true }));

test.each([
  [0o600, undefined],
  [0o400, undefined],
  [0o440, undefined],
  [0o644, 'read'],
  [0o604, 'read'],
  [0o660, 'change'],
  [0o602, 'change'],
  [0o777, 'change'],
])('a secret with mode %o is told as one that others can %s', (mode, how) => {
  chmodSync(file, mode);
  const warning = how && `other users of this machine can ${how} ${file}, which holds a secret: run chmod 600 ${file}`;
  expect(openFileWarning(file)).toBe(warning);
});

test('a file that is not there is nothing to warn of', () => {
  expect(openFileWarning(join(folder, 'none'))).toBeUndefined();
});
