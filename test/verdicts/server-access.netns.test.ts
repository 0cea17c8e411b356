/** Proves that the kernel agrees with the oracle on the agent's way to its server and on everything beside it (reference 1.2 (24)). */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { decide } from '../../src/policy/decide.ts';
import type { Packet, Transport } from '../../src/policy/packet.ts';
import type { Direction, Family } from '../../src/policy/rule.ts';
import type { ServerAccess } from '../../src/policy/server-access.ts';
import { packetText } from '../lib/packet-text.ts';
import { plainShape } from '../lib/probe-bytes.ts';
import { Random } from '../lib/random.ts';
import { VerdictLab, type ProbeRequest } from '../lib/verdict-lab.ts';
import { optionsFor, updating } from './install.ts';
import { drawScenario, policyOf, scenarioText } from './scenario.ts';
import { fixedSeeds } from './seeds.ts';

let lab: VerdictLab;
beforeAll(async () => {
  lab = await VerdictLab.open();
});
afterAll(() => lab?.close());

const base: Readonly<Record<Family, bigint>> = { 4: 0x0a14_0000n, 6: 0xfd14_0000_0000_0000_0000_0000_0000_0000n };

/** A random access at even addresses, so that every adjacent address is unused. */
function drawAccess(random: Random): ServerAccess {
  const hosts = (family: Family, most: number) =>
    Array.from({ length: random.int(0, most) }, (_, i) => {
      const at = base[family] + BigInt(2 * (10 * i + random.int(1, 5)));
      return { first: at, last: at };
    });
  const both = (most: number) => ({ v4: hosts(4, most), v6: hosts(6, most) });
  return { addresses: both(3), port: random.pick([53, 443, 8_080]), resolvers: both(2) };
}

/** Every address of the way and its neighbours, on every port of it and its neighbours, out and in. */
function probesFor(random: Random, { addresses, port, resolvers }: ServerAccess): ProbeRequest[] {
  return ([4, 6] as const).flatMap((family) => {
    const known = [addresses, resolvers].flatMap((set) => (family === 4 ? set.v4 : set.v6).map(({ first }) => first));
    const remotes = [...known, ...known.map((at) => at + 1n), base[family]];
    return remotes.flatMap((remote) =>
      [port, port + 1, 53, 54].flatMap((dport) =>
        (['tcp', 'udp'] as const).map((kind): ProbeRequest => {
          const direction: Direction = random.chance(0.8) ? 'outbound' : 'inbound';
          const transport: Transport = { kind, dport };
          const packet: Packet = { direction, family, remote, transport };
          // A packet from the server's own port gets no access by that.
          return { packet, shape: { ...plainShape, sport: direction === 'inbound' ? port : plainShape.sport } };
        }),
      ),
    );
  });
}

test('nobody passes by the way to the server but the device itself, to that port there and to its resolvers', async () => {
  const passed = { server: 0, refused: 0 };
  for (const seed of fixedSeeds(40)) {
    const random = new Random(seed ^ 0x5e44_e4);
    const [scenario, serverAccess] = [drawScenario(seed), drawAccess(random)];
    const policy = policyOf(scenario);
    await updating(lab, policy, { ...optionsFor(scenario.neighbourDiscovery, scenario.few), serverAccess });
    const requests = probesFor(random, serverAccess);
    const verdicts = await lab.probe(requests);
    const wrong = requests.flatMap(({ packet }, i) => {
      const { verdict, reason } = decide(policy, packet, { ...scenario, serverAccess });
      if (reason.kind === 'server') passed.server += 1;
      if (verdict === 'drop') passed.refused += 1;
      return verdict === verdicts[i] ? [] : [`${packetText(packet)}: the oracle says ${verdict} (${reason.kind})`];
    });
    expect(wrong.length === 0 ? [] : [...wrong, scenarioText(scenario)]).toEqual([]);
  }
  expect(passed.server).toBeGreaterThan(100);
  expect(passed.refused).toBeGreaterThan(100);
});
