/** Proves by which clock an agent ends an isolation: the server's, as far as it knows it; a device clock that is set forward ends none early (reference 1.5 (5)). */
import { afterEach, describe, expect, test } from 'vitest';
import { written } from '../../nft/policies.fixture.ts';
import { admits } from '../../policy/canonicalize.ts';
import { groupOf, World } from './agent.fixture.ts';
import { PolicyClock } from './policy-clock.ts';

const start = 1_700_000_000_000;
const [second, minute, hour] = [1_000, 60_000, 3_600_000];
const isolated = 0x0a00_0002n;

/** It refuses an isolated device for half an hour, and has a rule that ends in an hour. */
const policy = {
  source: 'list' as const,
  groups: [
    groupOf(1, [
      written('tcp', 80, 80),
      { ...written('tcp', 22, 22), expires_at: new Date(start + hour).toISOString() },
    ]),
  ],
  isolation: {
    refused: [
      {
        id: '00000000-0000-4000-8000-000000000002',
        addresses: [{ family: 4 as const, value: isolated }],
        until: start + 30 * minute,
      },
    ],
  },
};

class Scene {
  readonly time: PolicyClock;
  readonly #world: World;
  #skew = 0;

  private constructor() {
    const now = (): number => this.#world?.clock.now() ?? start;
    this.time = new PolicyClock({ clock: { now: () => now() + this.#skew }, monotonic: now });
    this.#world = new World({ time: this.time, skew: () => this.#skew });
  }

  static async open({ hasAnswered }: { readonly hasAnswered: boolean }): Promise<Scene> {
    const scene = new Scene();
    scenes.push(scene);
    if (hasAnswered) scene.time.serverTime(start);
    scene.#world.source.give({ kind: 'known', revision: 1, policy });
    await scene.#world.settle();
    return scene;
  }

  /** The device's clock is wrong by this from now on, and time passes. */
  async pass(milliseconds: number, { skew = this.#skew }: { readonly skew?: number } = {}): Promise<void> {
    this.#skew = skew;
    await this.#world.clock.advance(milliseconds);
    await this.#world.settle();
  }

  async held(): Promise<{ readonly refuses: boolean; readonly hasRule: boolean }> {
    const enforced = (await this.#world.enforced())?.policy;
    if (enforced === undefined) throw new Error('nothing is enforced');
    const admitted = (remote: bigint, dport: number): boolean =>
      admits(enforced, { direction: 'inbound', family: 4, remote, transport: { kind: 'tcp', dport } });
    return { refuses: !admitted(isolated, 80), hasRule: admitted(isolated + 1n, 22) };
  }

  close(): Promise<void> {
    return this.#world.stop();
  }
}

const scenes: Scene[] = [];
afterEach(async () => {
  for (const scene of scenes.splice(0)) await scene.close();
});

describe('where the server has answered once', () => {
  test('a clock that is set forward ends rules at once, and the isolation at its time', async () => {
    const scene = await Scene.open({ hasAnswered: true });
    expect(await scene.held()).toEqual({ refuses: true, hasRule: true });
    await scene.pass(6 * second, { skew: 24 * hour });
    expect(await scene.held()).toEqual({ refuses: true, hasRule: false });
    await scene.pass(29 * minute);
    expect((await scene.held()).refuses).toBe(true);
    await scene.pass(minute);
    expect((await scene.held()).refuses).toBe(false);
  });

  test('a clock that is corrected again prolongs nothing, and ends no rule early', async () => {
    const scene = await Scene.open({ hasAnswered: true });
    await scene.pass(6 * second, { skew: 40 * minute });
    expect(await scene.held()).toEqual({ refuses: true, hasRule: true });
    await scene.pass(29 * minute, { skew: 0 });
    expect((await scene.held()).refuses).toBe(true);
    await scene.pass(minute);
    expect(await scene.held()).toEqual({ refuses: false, hasRule: true });
    await scene.pass(30 * minute);
    expect((await scene.held()).hasRule).toBe(false);
  });

  test('a clock that is set back prolongs nothing', async () => {
    const scene = await Scene.open({ hasAnswered: true });
    await scene.pass(31 * minute, { skew: -24 * hour });
    expect(await scene.held()).toEqual({ refuses: false, hasRule: true });
  });
});

test('before the server has answered, the clock of the device is all that there is', async () => {
  const scene = await Scene.open({ hasAnswered: false });
  await scene.pass(31 * minute);
  expect(await scene.held()).toEqual({ refuses: false, hasRule: true });
});
