/** Proves that a saved policy comes back as it was, and that a damaged one is never taken for one. */
import * as fc from 'fast-check';
import { mkdtemp, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { parseInterfaceName } from '../../nft/names.ts';
import { policy as effective } from '../../policy/arbitrary.fixture.ts';
import { parseLastGoodPolicy, printLastGoodPolicy, type LastGoodPolicy } from './last-good-policy.ts';
import { UnusablePolicy } from './unusable-policy.ts';
import { StateFolder } from './state-folder.ts';

const recordAt = (revision: number): LastGoodPolicy => ({
  policy: { source: 'list', groups: [] },
  revision,
  interface: parseInterfaceName('wg0'),
  neighbourDiscovery: false,
});

test('any policy is read back as it was saved', () => {
  fc.assert(
    fc.property(effective, fc.nat(), fc.boolean(), (policy, revision, neighbourDiscovery) => {
      const before = { policy, revision, interface: parseInterfaceName('wg0'), neighbourDiscovery };
      expect(parseLastGoodPolicy(printLastGoodPolicy(before))).toEqual(JSON.parse(JSON.stringify(before)));
    }),
    { numRuns: 200 },
  );
});

test('a text with any letter changed, missing or added is no policy', () => {
  const text = printLastGoodPolicy(recordAt(7));
  fc.assert(
    fc.property(fc.nat({ max: text.length }), fc.constantFrom('', 'x', '\n', '0'), (at, letter) => {
      const cut = text.slice(0, at);
      const changed = text.slice(0, at) + letter + text.slice(at + 1);
      if (cut !== text) expect(() => parseLastGoodPolicy(cut)).toThrow(UnusablePolicy);
      if (changed !== text) expect(() => parseLastGoodPolicy(changed)).toThrow(UnusablePolicy);
      expect(() => parseLastGoodPolicy(`${text}${letter === '' ? ' ' : letter}`)).toThrow(UnusablePolicy);
    }),
    { numRuns: 300 },
  );
});

describe('a folder', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'ringfence-state-'));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  test('that is not there yet is made, for its owner only', async () => {
    const state = new StateFolder({ folder: join(folder, 'state') });
    expect(await state.readPolicy('policy')).toEqual({ kind: 'absent' });
    await state.writePolicy(recordAt(1));
    expect((await stat(join(folder, 'state'))).mode & 0o777).toBe(0o700);
    expect((await stat(state.path('policy'))).mode & 0o777).toBe(0o600);
    expect(await state.readPolicy('policy')).toEqual({ kind: 'found', record: recordAt(1) });
  });

  test('keeps policy and intent apart', async () => {
    const state = new StateFolder({ folder });
    await state.writePolicy(recordAt(1));
    const intent = await state.prepareIntent(recordAt(2));
    expect(await state.readPolicy('intent')).toEqual({ kind: 'found', record: recordAt(1) });
    await intent.place();
    expect(await state.readPolicy('policy')).toEqual({ kind: 'found', record: recordAt(1) });
    expect(await state.readPolicy('intent')).toEqual({ kind: 'found', record: recordAt(2) });
  });

  test('takes an intent in one step, and is made again for it where it is gone', async () => {
    const state = new StateFolder({ folder: join(folder, 'state') });
    for (const revision of [1, 2]) {
      state.writeIntent(recordAt(revision));
      expect(await state.readPolicy('intent')).toEqual({ kind: 'found', record: recordAt(revision) });
    }
    expect((await stat(join(folder, 'state'))).mode & 0o777).toBe(0o700);
    expect((await stat(state.path('intent'))).mode & 0o777).toBe(0o600);
  });

  test('holds the old policy until the new one is whole', async () => {
    await new StateFolder({ folder }).writePolicy(recordAt(1));
    for (const at of ['state-written', 'state-renamed'] as const) {
      const crashing = new StateFolder({
        folder,
        failpoint: (here) => {
          if (here === at) throw new Error('crash');
        },
      });
      await expect(crashing.writePolicy(recordAt(2))).rejects.toThrow('crash');
      const expected = at === 'state-written' ? 1 : 2;
      expect(await new StateFolder({ folder }).readPolicy('policy')).toEqual({
        kind: 'found',
        record: recordAt(expected),
      });
    }
    await new StateFolder({ folder }).writePolicy(recordAt(3));
    expect(await new StateFolder({ folder }).readPolicy('policy')).toEqual({ kind: 'found', record: recordAt(3) });
  });

  test('tells a damaged policy from an absent one', async () => {
    const state = new StateFolder({ folder });
    await state.writePolicy(recordAt(1));
    const { length } = await readFile(state.path('policy'));
    await truncate(state.path('policy'), length - 10);
    expect(await state.readPolicy('policy')).toMatchObject({ kind: 'damaged' });
    await writeFile(state.path('policy'), '');
    expect(await state.readPolicy('policy')).toMatchObject({ kind: 'damaged' });
    await state.writePolicy(recordAt(2));
    expect(await state.readPolicy('policy')).toMatchObject({ kind: 'found' });
  });

  test('that cannot be written says so', async () => {
    await writeFile(join(folder, 'file'), '');
    const state = new StateFolder({ folder: join(folder, 'file') });
    await expect(state.writePolicy(recordAt(1))).rejects.toThrow('ENOTDIR');
    expect(await state.readPolicy('policy')).toMatchObject({ kind: 'damaged' });
  });
});
