/** Proves that devices join, leave and move between labels under load without losing a permitted packet or letting a forbidden one pass. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Enforcer, type Target } from '../../src/agent/kernel/enforcer.ts';
import { RealNft } from '../../src/agent/kernel/real-nft.ts';
import { systemClock } from '../../src/client/clock.ts';
import { parseInterfaceName } from '../../src/nft/names.ts';
import { canonicalize, canonicalizeNames } from '../../src/policy/canonicalize.ts';
import type { EffectivePolicy } from '../../src/policy/effective.ts';
import { Fleet } from '../../src/policy/fleet/fleet.ts';
import { deviceIdentity } from '../../src/policy/fleet/identity.ts';
import { resolvePolicy } from '../../src/policy/fleet/resolve.ts';
import { parseGroupId } from '../../src/policy/ids.ts';
import type { PolicyGroup, StoredRule } from '../../src/policy/rule.ts';
import { FloodLab, floodInterface, forbiddenPort, peer4, peer6, permittedPort } from '../lib/flood.ts';
import { Random } from '../lib/random.ts';

const uuid = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
const rule = (port: number, ...labels: string[]): StoredRule => ({
  ip_protocol: 'udp',
  from_port: port,
  to_port: port,
  peers: labels.map((label) => ({ labels: [label] })),
});
const group = (n: number, ...rules: StoredRule[]): PolicyGroup => ({
  id: parseGroupId(uuid(n)),
  name: `group ${n}`,
  inbound: rules,
  outbound: rules,
});

/** Permitted is who is `a` or `b`. What is `out` is admitted on the other port, and forbidden there: it must never pass. */
const policy: EffectivePolicy = {
  source: 'list',
  groups: [group(1, rule(permittedPort, 'a')), group(2, rule(permittedPort, 'b'), rule(forbiddenPort, 'out'))],
  guardrails: { forbid: [group(3, rule(forbiddenPort, 'out'))], require: [] },
};
const random = new Random(11);
const changes = 250;

describe('while packets come without a pause', () => {
  let lab: FloodLab;
  let scratch: string;
  let nft: RealNft;
  beforeAll(async () => {
    lab = await FloodLab.open();
    await lab.addContainer();
    scratch = await mkdtemp(join(tmpdir(), 'ringfence-members-'));
    nft = new RealNft({ clock: systemClock, scratch, prefix: lab.device.inside([]) });
  });
  afterAll(async () => {
    await nft?.close();
    await lab?.close();
    await rm(scratch ?? '', { recursive: true, force: true });
  });

  test(
    `${changes} changes of the fleet change no chain, lose no permitted packet and let no forbidden one pass`,
    { timeout: 0 },
    async () => {
      const fleet = new Fleet();
      const flooding = (id: number, ...labels: string[]) =>
        fleet.set(deviceIdentity({ id: uuid(id), addresses: [peer4, peer6], labels }));
      const stranger = (id: number) =>
        fleet.set(
          deviceIdentity({
            id: uuid(id),
            addresses: random.many(random.int(0, 3), () => `10.9.0.${random.int(1, 40)}`),
            labels: ['a', 'b', 'out'].filter(() => random.chance(0.4)),
          }),
        );
      const target = (): Target => {
        const resolved = resolvePolicy(policy, fleet);
        return {
          policy: canonicalize(resolved),
          named: canonicalizeNames(resolved),
          interface: parseInterfaceName(floodInterface),
          neighbourDiscovery: true,
          forwarding: 'on',
        };
      };
      const chains = async (): Promise<string[]> => [...((await nft.list())?.chains.keys() ?? [])].toSorted();
      const enforcer = new Enforcer({ nft, random: Math.random });
      flooding(1, 'a');
      await enforcer.apply(target());
      const before = await chains();
      await lab.start();
      for (let i = 0; i < changes; i++) {
        // The flood's address is always one of `a` or `b`: by one device or by two that share it, moving from one to the other.
        const out = random.chance(0.5) ? ['out'] : [];
        const kind = random.int(0, 3);
        if (kind === 0) flooding(1, random.pick(['a', 'b']), ...out);
        else if (kind === 1) flooding(1, 'a', 'b', ...out);
        else if (kind === 2) flooding(2, random.pick(['a', 'b']), ...out);
        else if (fleet.get(uuid(1)) !== undefined) fleet.delete(uuid(2));
        for (const id of [3, 4, 5]) if (random.chance(0.5)) stranger(id);
        await enforcer.apply(target());
        // So that every change is met by packets.
        await sleep(2);
        if (i % 100 === 99) expect((await enforcer.verify()).findings).toEqual([]);
      }
      const tally = await lab.stop();
      const { lost, leaked } = tally;
      expect(lab.fewest(tally)).toBeGreaterThan(changes);
      expect({ lost, leaked }).toEqual({ lost: 0, leaked: 0 });
      expect(await chains()).toEqual(before);
    },
  );
});
