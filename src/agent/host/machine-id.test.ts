/** Proves that a machine's id is derived as systemd derives it, and that a system without one has none. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { deriveMachineId, readMachineId } from './machine-id.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ringfence-machine-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

test('the id is what `systemd-id128 machine-id --app-specific` prints for the same machine and application', () => {
  expect(deriveMachineId('00112233445566778899aabbccddeeff', 'b3f2c8d1a4674e0f9d5c17e2608bfa43')).toBe(
    '4b1cc9755cb44ad699a90713c87a7718',
  );
});

test('the id of a file is derived from it, and does not show it', async () => {
  const machine = '0123456789abcdef0123456789abcdef';
  await writeFile(join(folder, 'machine-id'), `${machine}\n`);
  const id = await readMachineId(join(folder, 'machine-id'));
  expect(id).toBe(deriveMachineId(machine));
  expect(id).toMatch(/^[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}$/);
  expect(id).not.toContain(machine.slice(0, 8));
});

test.each(['', 'uninitialized\n', '0'.repeat(32), 'xyz', 'ab'.repeat(15)])(
  'a file that says %j names no machine',
  async (text) => {
    await writeFile(join(folder, 'machine-id'), text);
    expect(await readMachineId(join(folder, 'machine-id'))).toBeUndefined();
    expect(await readMachineId(join(folder, 'nothing'))).toBeUndefined();
  },
);
