/** Proves with a real container engine that what it publishes and lets out is judged by the rules (reference 1.2 (25)). */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { forward } from '../../../test/lib/container.ts';
import { Podman } from '../../../test/lib/podman.ts';
import { serve } from '../../../test/lib/talk.ts';
import { written } from '../../nft/policies.fixture.ts';
import { defaultInboundRules, type StoredRule } from '../../policy/rule.ts';
import { groupOf } from './agent.fixture.ts';
import { device4, device6, peer4, RealWorld } from './real-world.fixture.ts';

let world: RealWorld;
let podman: Podman;
beforeAll(async () => {
  world = await RealWorld.open({ forwarding: async () => 'on' });
  await forward(world.device, true);
  podman = await Podman.open(world.device);
  await Promise.all([443, 7_000].map((port) => serve({ namespace: world.peer, protocol: 'tcp', address: '::', port })));
  world.start();
});
afterAll(async () => {
  await podman?.close();
  await world?.close();
});

let revision = 0;
async function put(inbound: readonly StoredRule[], outbound: readonly StoredRule[] = []): Promise<void> {
  const mine = (revision += 1);
  world.source.know(mine, groupOf(1, inbound, outbound));
  await world.eventually('the rules are in force', () => {
    const { pending, inForce } = world.agent.status;
    return !pending && inForce?.revision === mine;
  });
}

/** The page behind the published port, as the peer gets it. */
const page = async (address: string, seconds = 60): Promise<string> => {
  const host = address.includes(':') ? `[${address}]` : address;
  return (
    await world.peer.attempt(['curl', '--silent', '--max-time', String(seconds), `http://${host}:8080/`])
  ).stdout.trim();
};
const call = (port: number): Promise<string> => podman.inside(`echo knock | nc -w 4 ${peer4} ${port}`);

describe('a container of Podman', () => {
  test.each([
    ['IPv4', device4],
    ['IPv6', device6],
  ])('is reached over %s by whom the group admits to the published port, and by nobody else', async (_, address) => {
    await put(defaultInboundRules);
    expect(await page(address)).toBe('hello');
    await put([written('tcp', 80, 80)]);
    expect(await page(address, 4)).toBe('');
    await put([written('tcp', 8_080, 8_080)]);
    expect(await page(address)).toBe('hello');
  });

  test("gets out where the group's outbound rules let the device go", async () => {
    await put([]);
    expect(await call(7_000)).toBe('knock');
    await put([], [written('tcp', 443, 443)]);
    expect([await call(443), await call(7_000)]).toEqual(['knock', '']);
  });
});
