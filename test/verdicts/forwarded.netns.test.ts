/** Proves that the kernel agrees with the oracle on redirected, translated and routed connections, in both families (reference 1.2 (25)). */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { decide } from '../../src/policy/decide.ts';
import { packetText } from '../lib/packet-text.ts';
import { VerdictLab, type Verdict } from '../lib/verdict-lab.ts';
import { rounds } from '../lib/thorough.ts';
import { drawForwarded } from './forwarded.ts';
import { optionsFor, productCompiler, replacing, updating, type Installer } from './install.ts';
import { drawScenario, isByNames, policyOf, scenarioText } from './scenario.ts';
import { fixedSeeds } from './seeds.ts';

interface Judged {
  readonly kind: string;
  readonly text: string;
  readonly expected: Verdict;
  readonly verdict: Verdict;
}

let lab: VerdictLab;
beforeAll(async () => {
  lab = await VerdictLab.open();
  await lab.addContainer();
});
afterAll(() => lab?.close());

async function judge(seed: number, install: Installer): Promise<Judged[]> {
  const scenario = drawScenario(seed);
  const policy = policyOf(scenario);
  const options = optionsFor(scenario.neighbourDiscovery, scenario.few);
  await install(lab, policy, { ...options, forwarding: 'on', named: isByNames(scenario) });
  const requests = drawForwarded(scenario);
  const verdicts = await lab.probe(requests);
  return requests.map(({ packet }, i) => {
    const expected = decide(policy, packet, scenario).verdict;
    const verdict = verdicts[i] ?? 'drop';
    const text = `${packet.forwarded} ${packetText(packet)}: the oracle says ${expected}, the kernel ${verdict}\n${scenarioText(scenario)}`;
    return { kind: `${packet.forwarded} IPv${packet.family}`, text, expected, verdict };
  });
}
const isWrong = ({ expected, verdict }: Judged): boolean => expected !== verdict;

describe('the kernel agrees with the oracle on what the device forwards', () => {
  const policies = rounds(20, 60);
  test(`on every connection of ${policies} random policies, each installed as an update of the one before`, async () => {
    const all: Judged[] = [];
    for (const seed of fixedSeeds(policies)) {
      const judged = await judge(seed, updating);
      expect(judged.filter(isWrong).map(({ text }) => text)).toEqual([]);
      all.push(...judged);
    }
    // Each kind was both admitted and refused, often enough to mean something.
    for (const kind of ['redirected IPv4', 'redirected IPv6', 'translated IPv4', 'translated IPv6']) {
      for (const verdict of ['accept', 'drop'] as const) {
        const seen = all.filter((each) => each.kind === kind && each.verdict === verdict);
        expect([kind, verdict, seen.length > rounds(12, 40)]).toEqual([kind, verdict, true]);
      }
    }
  });

  const mistakes: readonly (readonly [string, (text: string) => string])[] = [
    [
      'the port behind the redirection',
      (text) =>
        text.replaceAll(/meta l4proto (6|17) ct original proto-dst/g, (_, n) =>
          n === '6' ? 'tcp dport' : 'udp dport',
        ),
    ],
    ['every forwarded packet', (text) => text.replaceAll(/ ct status [ds]nat/g, '')],
    ['nothing that is redirected', (text) => text.replaceAll('ct status dnat', 'ct status snat')],
    [
      'what is translated before it is',
      (text) => text.replaceAll('hook postrouting priority 150', 'hook postrouting priority 50'),
    ],
  ];
  test.each(mistakes)('and the comparison catches rules that judge %s', async (_, mistake) => {
    const wrong = replacing((policy, options) => mistake(productCompiler(policy, options)));
    for (const seed of fixedSeeds(12)) if ((await judge(seed, wrong)).some(isWrong)) return;
    expect.fail('not caught by the packets of 12 policies');
  });
});
