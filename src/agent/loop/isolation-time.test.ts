/** Proves by which clock an agent ends an isolation: the server's, as far as it knows it; a device clock that is set forward ends none early (reference 1.5 (5)). */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { written } from '../../nft/policies.fixture.ts';
import { admits } from '../../policy/canonicalize.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { FakeNft } from '../kernel/fake-nft.fixture.ts';
import { StateFolder } from '../state/state-folder.ts';
import { groupOf, World, type WorldOptions } from './agent.fixture.ts';
import { PolicyClock } from './policy-clock.ts';

const start = 1_700_000_000_000;
const [second, minute, hour] = [1_000, 60_000, 3_600_000];
const isolated = 0x0a00_0002n;

/** A policy with a rule that ends. */
const withRule = (endsAt: number): EffectivePolicy => ({
  source: 'list',
  groups: [
    groupOf(1, [written('tcp', 80, 80), { ...written('tcp', 22, 22), expires_at: new Date(endsAt).toISOString() }]),
  ],
});

/** It refuses an isolated device for half an hour, and has a rule that ends in an hour. */
const policy: EffectivePolicy = {
  ...withRule(start + hour),
  isolation: {
    refused: [
      {
        id: '00000000-0000-4000-8000-000000000002',
        addresses: [{ family: 4, value: isolated }],
        until: start + 30 * minute,
      },
    ],
  },
};

interface SceneOptions extends Pick<WorldOptions, 'nft' | 'state'> {
  readonly hasAnswered: boolean;
  /** By how much the device's clock is wrong at the start. */
  readonly skew?: number;
  /** Absent: the server says nothing, and the saved policy is all that there is. */
  readonly knows?: EffectivePolicy;
}

class Scene {
  readonly time: PolicyClock;
  readonly #world: World;
  #skew: number;

  private constructor({ skew = 0, nft, state }: SceneOptions) {
    this.#skew = skew;
    const now = (): number => this.#world?.clock.now() ?? start;
    this.time = new PolicyClock({ clock: { now: () => now() + this.#skew }, monotonic: now });
    this.#world = new World({ time: this.time, skew: () => this.#skew, ...(nft && { nft }), ...(state && { state }) });
  }

  static async open(options: SceneOptions): Promise<Scene> {
    const scene = new Scene(options);
    scenes.push(scene);
    if (options.hasAnswered) scene.time.serverTime(start);
    if (options.knows === undefined) await scene.#world.settle();
    else await scene.know(1, options.knows);
    return scene;
  }

  get nft(): FakeNft {
    return this.#world.nft;
  }
  get origin(): string | undefined {
    return this.#world.agent.status.inForce?.origin;
  }

  async know(revision: number, known: EffectivePolicy): Promise<void> {
    this.#world.source.give({ kind: 'known', revision, policy: known });
    await this.#world.settle();
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
    const scene = await Scene.open({ hasAnswered: true, knows: policy });
    expect(await scene.held()).toEqual({ refuses: true, hasRule: true });
    await scene.pass(6 * second, { skew: 24 * hour });
    expect(await scene.held()).toEqual({ refuses: true, hasRule: false });
    await scene.pass(29 * minute);
    expect((await scene.held()).refuses).toBe(true);
    await scene.pass(minute);
    expect((await scene.held()).refuses).toBe(false);
  });

  test('a clock that is corrected again prolongs nothing, and ends no rule early', async () => {
    const scene = await Scene.open({ hasAnswered: true, knows: policy });
    await scene.pass(6 * second, { skew: 40 * minute });
    expect(await scene.held()).toEqual({ refuses: true, hasRule: true });
    await scene.pass(29 * minute, { skew: 0 });
    expect((await scene.held()).refuses).toBe(true);
    await scene.pass(minute);
    expect(await scene.held()).toEqual({ refuses: false, hasRule: true });
    await scene.pass(30 * minute);
    expect((await scene.held()).hasRule).toBe(false);
  });

  test('the end of an isolation says nothing about the time of rules: a clock that was wrong then ends no later rule', async () => {
    const scene = await Scene.open({ hasAnswered: true, knows: policy });
    await scene.pass(6 * second, { skew: 24 * hour });
    await scene.pass(31 * minute);
    expect((await scene.held()).refuses).toBe(false);
    await scene.pass(6 * second, { skew: 0 });
    await scene.know(2, withRule(start + 2 * hour));
    expect(await scene.held()).toEqual({ refuses: false, hasRule: true });
  });

  test('a clock that is set back prolongs nothing', async () => {
    const scene = await Scene.open({ hasAnswered: true, knows: policy });
    await scene.pass(31 * minute, { skew: -24 * hour });
    expect(await scene.held()).toEqual({ refuses: false, hasRule: true });
  });
});

describe('before the server has answered', () => {
  test('the clock of the device is all that there is', async () => {
    const scene = await Scene.open({ hasAnswered: false, knows: policy });
    await scene.pass(31 * minute);
    expect(await scene.held()).toEqual({ refuses: false, hasRule: true });
  });

  test.each([
    ['restart', (nft: FakeNft) => nft],
    ['reboot', () => new FakeNft()],
  ])('after a %s, a clock that was ahead in the last run too ends no isolation early', async (_, kernelAfter) => {
    const folder = await mkdtemp(join(tmpdir(), 'ringfence-isolation-'));
    try {
      const kept = (): StateFolder => new StateFolder({ folder });
      const skew = 24 * hour;
      const first = await Scene.open({ hasAnswered: true, knows: policy, state: kept(), skew });
      expect(await first.held()).toEqual({ refuses: true, hasRule: false });
      await first.close();
      const again = await Scene.open({ hasAnswered: false, state: kept(), skew, nft: kernelAfter(first.nft) });
      expect(again.origin).toBe('kept');
      expect(await again.held()).toEqual({ refuses: true, hasRule: false });
      await again.pass(29 * minute);
      expect((await again.held()).refuses).toBe(true);
      await again.pass(minute);
      expect((await again.held()).refuses).toBe(false);
    } finally {
      for (const scene of scenes.splice(0)) await scene.close();
      await rm(folder, { recursive: true, force: true });
    }
  });

  test('a moment that may have come ends rules and trials, and no isolation', () => {
    const time = new PolicyClock({ clock: { now: () => start }, monotonic: () => 0 });
    time.resume({ time: start - minute, offset: hour });
    expect(time.moment).toEqual({ at: start + hour, isolationsAt: start });
    time.presume(start + 2 * hour);
    expect(time.moment).toEqual({ at: start + 2 * hour, isolationsAt: start });
    time.serverTime(start + minute);
    expect(time.moment).toEqual({ at: start + minute, isolationsAt: start + minute });
  });
});
