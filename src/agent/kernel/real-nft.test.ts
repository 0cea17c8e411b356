/** Proves how long the real port waits for an nft that does not answer: by a program that never does, and a clock of the test. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { FakeClock, turn } from '../../client/fake.fixture.ts';
import type { Command } from '../../nft/ast.ts';
import { policyOf, written } from '../../nft/policies.fixture.ts';
import { compile } from '../../nft/compile/compile.ts';
import { parseInterfaceName } from '../../nft/names.ts';
import { install } from '../../nft/plan/plan.ts';
import { RealNft } from './real-nft.ts';

let scratch: string;
beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'ringfence-nft-'));
});
afterEach(() => rm(scratch, { recursive: true, force: true }));

const batch = (ranges: number): readonly Command[] => {
  const addresses = Array.from({ length: ranges }, (_, i) => `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}/32`);
  const policy = policyOf([written('tcp', 22, 22, ...addresses.filter((_, i) => i % 2 === 0))]);
  return install(compile(policy, { interface: parseInterfaceName('rf0'), neighbourDiscovery: false, salt: '' }));
};

/** Milliseconds until the port gives up on this batch. */
async function timeoutFor(nft: RealNft, clock: FakeClock, commands: readonly Command[]): Promise<number> {
  const outcome = nft.run(commands).catch((error: unknown) => error);
  while (clock.next === undefined) await turn();
  const timeout = clock.next;
  await clock.advance(timeout);
  expect(await outcome).toMatchObject({ code: 'timed_out' });
  return timeout;
}

test('a larger batch has more time, and one that had too little has twice as much the next time', async () => {
  const clock = new FakeClock();
  const silent = new RealNft({ clock, scratch, program: 'sh', prefix: ['sh', '-c', 'exec cat > /dev/null'] });
  const small = await timeoutFor(silent, clock, batch(2));
  expect(small).toBeGreaterThanOrEqual(60_000);
  expect(await timeoutFor(silent, clock, batch(2))).toBe(small * 2);
  const fresh = new RealNft({ clock, scratch, program: 'sh', prefix: ['sh', '-c', 'exec cat > /dev/null'] });
  const large = await timeoutFor(fresh, clock, batch(20_000));
  expect(large).toBeGreaterThan(small + 1_000);
  await Promise.all([silent.close(), fresh.close()]);
});
