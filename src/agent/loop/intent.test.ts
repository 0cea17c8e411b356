/** Proves that the intent on disk identifies the policy of the kernel's rules, even after a failed update. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { parseInterfaceName } from '../../nft/names.ts';
import { NftError } from '../kernel/nft.ts';
import type { LastGoodPolicy } from '../state/last-good-policy.ts';
import { StateFolder } from '../state/state-folder.ts';
import { Intent } from './intent.ts';

const recordAt = (revision: number): LastGoodPolicy => ({
  policy: { source: 'list', groups: [] },
  revision,
  interface: parseInterfaceName('wg0'),
  neighbourDiscovery: true,
});

describe('an intent', () => {
  let folder: string;
  let state: StateFolder;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'ringfence-intent-'));
    state = new StateFolder({ folder });
    state.writeIntent(recordAt(1));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));
  const revision = async (): Promise<number | undefined> => {
    const found = await state.readPolicy('intent');
    return found.kind === 'found' ? found.record.revision : undefined;
  };

  test('of an update that is made at once stands before it is made', async () => {
    new Intent(state, recordAt(2)).atOnce();
    expect(await revision()).toBe(2);
  });

  test('of an update that is staged stands once the kernel has taken the new parts', async () => {
    const place = new Intent(state, recordAt(2)).whileStaging();
    expect(await revision()).toBe(1);
    await place();
    expect(await revision()).toBe(2);
  });

  test.each([
    ['refused', 1],
    ['not_permitted', 1],
    ['interrupted', 2],
    ['timed_out', 2],
  ] as const)('of an update that was made at once and is %s leaves that of revision %i', async (code, left) => {
    const intent = new Intent(state, recordAt(2));
    intent.atOnce();
    await intent.giveUp(recordAt(1), new NftError(code, 'a test wants it so'));
    expect(await revision()).toBe(left);
  });

  test('of an update that fails while it is staged was never there', async () => {
    const intent = new Intent(state, recordAt(2));
    intent.whileStaging();
    await intent.giveUp(recordAt(1), new NftError('refused', 'a test wants it so'));
    expect(await revision()).toBe(1);
  });

  test('that cannot be written fails nothing', async () => {
    await rm(folder, { recursive: true });
    const nowhere = new StateFolder({ folder: join(folder, 'gone', 'state') });
    const intent = new Intent(nowhere, recordAt(2));
    expect(() => intent.atOnce()).not.toThrow();
    await expect(intent.whileStaging()()).resolves.toBeUndefined();
  });
});
