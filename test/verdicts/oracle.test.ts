/** Proves the oracle without a kernel: `decide`, the canonical form and a naive reading of the reference agree on drawn packets. */
import { describe, expect, test } from 'vitest';
import { admits, canonicalize } from '../../src/policy/canonicalize.ts';
import { decide } from '../../src/policy/decide.ts';
import { packetText } from '../lib/packet-text.ts';
import { rounds } from '../lib/thorough.ts';
import { naiveVerdict } from './naive.ts';
import { drawProbes } from './probes.ts';
import { drawScenario, policyOf, scenarioText } from './scenario.ts';
import { tally, tooFew } from './balance.ts';

describe('on random policies', () => {
  const scenarios = Array.from({ length: rounds(200, 600) }, (_, i) => {
    const scenario = drawScenario(1 + i);
    const policy = policyOf(scenario);
    return {
      scenario,
      policy,
      canonical: canonicalize(policy),
      judged: drawProbes(scenario).map(({ packet }) => ({ packet, verdict: naiveVerdict(scenario, packet) })),
    };
  });

  test('decide, the canonical form and a naive reading of the reference give one verdict', () => {
    const disagreements = scenarios.flatMap(({ scenario, policy, canonical, judged }) =>
      judged.flatMap(({ packet, verdict: naive }) => {
        const decided = decide(policy, packet, scenario).verdict;
        const admitted = admits(canonical, packet, scenario) ? 'accept' : 'drop';
        if (decided === naive && admitted === naive) return [];
        return [
          `${packetText(packet)}: naive ${naive}, decide ${decided}, canonical ${admitted}\n${scenarioText(scenario)}`,
        ];
      }),
    );
    expect(disagreements.slice(0, 3)).toEqual([]);
  });

  test('every kind of policy is drawn, and some need a tree of ports', () => {
    const kinds = new Set(scenarios.map(({ scenario }) => scenario.kind));
    expect(kinds).toEqual(
      new Set(['mixed', 'untouched default', 'many ranges', 'many blocks', 'nested ports', 'tangled ports']),
    );
    const trees = scenarios.filter(({ canonical: { inbound, outbound } }) =>
      [inbound, outbound].some(
        (direction) =>
          direction.kind === 'closed' && [direction.tcp, direction.udp].some(({ ports }) => ports.kind === 'tree'),
      ),
    );
    expect(trees.length).toBeGreaterThan(rounds(2, 5));
  });

  test('no kind of packet is always accepted or always dropped', () => {
    expect(tooFew(tally(scenarios.flatMap(({ judged }) => judged)), rounds(33, 100))).toEqual([]);
  });
});
