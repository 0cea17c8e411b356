/** Owns the comparison of kernel and oracle: a scenario goes into the kernel, its packets after it, and every verdict is checked. */
import { decide, type Decision } from '../../src/policy/decide.ts';
import { packetText } from '../lib/packet-text.ts';
import type { ProbeRequest, Verdict, VerdictLab } from '../lib/verdict-lab.ts';
import { optionsFor, type Installer } from './install.ts';
import { drawProbes } from './probes.ts';
import { isByNames, policyOf, scenarioText, type Scenario } from './scenario.ts';

export interface Judged extends ProbeRequest {
  readonly expected: Decision;
  readonly verdict: Verdict;
}

/** Installs the scenario and judges its packets by kernel and oracle. */
export async function judge(lab: VerdictLab, scenario: Scenario, install: Installer): Promise<Judged[]> {
  return judgeOn(lab, scenario, install, drawProbes(scenario));
}

async function judgeOn(
  lab: VerdictLab,
  scenario: Scenario,
  install: Installer,
  requests: ProbeRequest[],
): Promise<Judged[]> {
  const policy = policyOf(scenario);
  const { observe, refuseWith } = scenario;
  const options = { ...optionsFor(scenario.neighbourDiscovery, scenario.few), observe, refuseWith };
  await install(lab, policy, { ...options, named: isByNames(scenario) });
  const verdicts = await lab.probe(requests);
  return requests.map(({ packet, shape }, i) => ({
    packet,
    ...(shape === undefined ? {} : { shape }),
    expected: decide(policy, packet, scenario),
    verdict: verdicts[i] ?? 'drop',
  }));
}

export const isMismatch = ({ expected, verdict }: Judged): boolean => expected.verdict !== verdict;

/**
 * The mismatch again, with everything a person needs to see and replay it: for the fewest rules that still show it, if it
 * shows without what was installed before.
 */
export async function explain(lab: VerdictLab, scenario: Scenario, wrong: Judged, install: Installer): Promise<string> {
  const differs = async (smaller: Scenario): Promise<boolean> => {
    await lab.load('table inet service\ndelete table inet service\n');
    return (await judgeOn(lab, smaller, install, [wrong])).some(isMismatch);
  };
  const before = await tableText(lab);
  if (!(await differs(scenario))) return mismatchText(scenario, wrong, before);
  let smallest = scenario;
  for (let rounds = 0; rounds < 30; rounds++) {
    const better = await firstThat(fewerRules(smallest), differs);
    if (better === undefined) break;
    smallest = better;
  }
  const [again = wrong] = await judgeOn(lab, smallest, install, [wrong]);
  return mismatchText(smallest, again, await tableText(lab));
}

async function tableText(lab: VerdictLab): Promise<string> {
  return (await lab.device.run(['nft', 'list', 'table', 'inet', 'service'])).stdout;
}

async function firstThat<T>(items: Iterable<T>, holds: (item: T) => Promise<boolean>): Promise<T | undefined> {
  for (const item of items) if (await holds(item)) return item;
  return undefined;
}

/** Every scenario with one group or one rule less, halves of long lists first. */
function* fewerRules(scenario: Scenario): Generator<Scenario> {
  for (const kind of ['forbid', 'require'] as const) {
    const { guardrails } = scenario;
    for (const i of guardrails[kind].keys()) {
      yield { ...scenario, guardrails: { ...guardrails, [kind]: guardrails[kind].toSpliced(i, 1) } };
    }
  }
  const { applied } = scenario;
  for (const [i, group] of applied.entries()) {
    if (applied.length > 1) yield { ...scenario, applied: applied.toSpliced(i, 1) };
    for (const direction of ['inbound', 'outbound'] as const) {
      const rules = group[direction];
      const half = Math.ceil(rules.length / 2);
      const parts =
        rules.length > 3 ? [rules.slice(half), rules.slice(0, half)] : rules.map((_, r) => rules.toSpliced(r, 1));
      for (const part of parts) yield { ...scenario, applied: applied.with(i, { ...group, [direction]: part }) };
    }
  }
}

function mismatchText(scenario: Scenario, { packet, shape, expected, verdict }: Judged, table: string): string {
  return [
    `${packetText(packet)} ${JSON.stringify(shape)}`,
    `the oracle says ${expected.verdict} (${reasonText(expected)}), the kernel says ${verdict}`,
    scenarioText(scenario),
    table,
  ].join('\n');
}

function reasonText({ reason }: Decision): string {
  if (!('rule' in reason)) return reason.kind;
  const kind = reason.kind === 'rule' ? '' : `${reason.kind}, `;
  return `${kind}${reason.direction} rule ${reason.index} of ${reason.group.name}: ${JSON.stringify(reason.rule)}`;
}
