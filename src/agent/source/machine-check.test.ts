/** Proves that an identity from another machine is refused until it is adopted, and that an old one is claimed silently. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { parseDeviceId, parseOrganizationId } from '../../policy/ids.ts';
import { IdentityFolder, type Identity } from './identity.ts';
import { claimIdentity, ForeignIdentity, refuseForeignIdentity } from './machine-check.ts';

const identity: Identity = {
  organization: parseOrganizationId('01a1ddc0-9c97-738b-af8b-619f0abce38f'),
  device: parseDeviceId('01a1ddc0-a60f-71bc-85bc-8b1b7f5d75bc'),
  token: 'rf_device_x',
  publicKey: 'k',
};

let path: string;
let folder: IdentityFolder;
let logged: string[];
beforeEach(async () => {
  path = await mkdtemp(join(tmpdir(), 'ringfence-identity-'));
  folder = new IdentityFolder(path);
  logged = [];
});
afterEach(() => rm(path, { recursive: true, force: true }));

/** As a start does it: refuse, or take the identity for this machine's own. */
async function start(machine: string | undefined, adopt = false): Promise<string | undefined> {
  const check = { folder, machine, adopt };
  refuseForeignIdentity(await folder.identity(), check);
  await claimIdentity(check, (level, message) => logged.push(`${level}: ${message}`));
  return (await folder.identity())?.machine;
}

test('an identity of this machine is its own, also where there is no id to compare', async () => {
  await folder.save({ ...identity, machine: 'this' });
  expect(await start('this')).toBe('this');
  expect(await start(undefined)).toBe('this');
  expect(logged).toEqual([]);
});

test('an identity of another machine is refused in one line that says what to do, and stays as it is', async () => {
  await folder.save({ ...identity, machine: 'that' });
  await expect(start('this')).rejects.toThrow(ForeignIdentity);
  await expect(start('this')).rejects.toThrow(
    `${path}/identity.json was created on another machine (device ${identity.device}): to enroll this machine, delete it; to continue as that device, start once with --adopt`,
  );
  expect(await folder.identity()).toEqual({ ...identity, machine: 'that' });
});

test('an identity that is adopted belongs to this machine from then on, and the log says so', async () => {
  await folder.save({ ...identity, machine: 'that' });
  expect(await start('this', true)).toBe('this');
  expect(logged).toEqual([expect.stringContaining('warn: this machine continues as a device')]);
  expect(await start('this')).toBe('this');
  await expect(start('that')).rejects.toThrow(ForeignIdentity);
});

test('an identity that an older agent made is claimed without a word', async () => {
  await folder.save(identity);
  expect(await start('this')).toBe('this');
  expect(logged).toEqual([]);
  await expect(start('that')).rejects.toThrow(ForeignIdentity);
});

test('without an identity there is nothing to refuse', async () => {
  expect(await start('this', true)).toBeUndefined();
  expect(await start('this')).toBeUndefined();
});
