/** Owns the comparison of kernel and oracle: a scenario goes into the kernel, its packets after it, and every verdict is checked. */
import type { Ruleset } from '../../src/nft/ast.ts';
import { compile, type CompileOptions } from '../../src/nft/compile.ts';
import { parseInterfaceName } from '../../src/nft/names.ts';
import { install, remove } from '../../src/nft/plan.ts';
import { printCommands } from '../../src/nft/print.ts';
import { canonicalize } from '../../src/policy/canonicalize.ts';
import { decide, type Decision } from '../../src/policy/decide.ts';
import type { EffectivePolicy } from '../../src/policy/effective.ts';
import { packetText } from '../lib/packet-text.ts';
import { driver, type ProbeRequest, type Verdict, type VerdictLab } from '../lib/verdict-lab.ts';
import { drawProbes } from './probes.ts';
import { policyOf, scenarioText, type Scenario } from './scenario.ts';

/** What is put to the test: a policy in, out comes nft text that replaces the table in one transaction. */
export type Compiler = (policy: EffectivePolicy, options: CompileOptions) => string;

/** The whole table anew. */
export const replaceText = (ruleset: Ruleset): string => printCommands([...remove(), ...install(ruleset)]);

export const productCompiler: Compiler = (policy, options) => replaceText(compile(canonicalize(policy), options));

export const optionsFor = (neighbourDiscovery: boolean): CompileOptions => ({
  interface: parseInterfaceName(driver),
  neighbourDiscovery,
});

export interface Judged extends ProbeRequest {
  readonly expected: Decision;
  readonly verdict: Verdict;
}

/** Installs the scenario with the compiler and judges its packets by kernel and oracle. */
export async function judge(lab: VerdictLab, scenario: Scenario, compiler: Compiler): Promise<Judged[]> {
  const policy = policyOf(scenario);
  await lab.load(compiler(policy, optionsFor(scenario.neighbourDiscovery)));
  const requests = drawProbes(scenario);
  const verdicts = await lab.probe(requests);
  return requests.map((request, i) =>
    Object.assign(request, { expected: decide(policy, request.packet, scenario), verdict: verdicts[i] ?? 'drop' }),
  );
}

export const isMismatch = ({ expected, verdict }: Judged): boolean => expected.verdict !== verdict;

/** The fewest rules that still show the mismatch: rules go one by one while kernel and oracle differ on the packet. */
export async function shrink(
  lab: VerdictLab,
  scenario: Scenario,
  wrong: Judged,
  compiler: Compiler,
): Promise<Scenario> {
  const differs = async (smaller: Scenario): Promise<boolean> => {
    const policy = policyOf(smaller);
    await lab.load(compiler(policy, optionsFor(smaller.neighbourDiscovery)));
    const [verdict] = await lab.probe([wrong]);
    return verdict !== decide(policy, wrong.packet, smaller).verdict;
  };
  let smallest = scenario;
  for (let attempts = 0; attempts < 20; attempts++) {
    const better = await firstThat(fewerRules(smallest), differs);
    if (better === undefined) break;
    smallest = better;
  }
  return smallest;
}

async function firstThat<T>(items: Iterable<T>, holds: (item: T) => Promise<boolean>): Promise<T | undefined> {
  for (const item of items) if (await holds(item)) return item;
  return undefined;
}

/** Every scenario with one group or one rule less, halves of long lists first. */
function* fewerRules(scenario: Scenario): Generator<Scenario> {
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

/** Everything a person needs to see and replay the mismatch. */
export function mismatchText(
  scenario: Scenario,
  { packet, shape, expected, verdict }: Judged,
  compiler: Compiler,
): string {
  return [
    `${packetText(packet)} ${JSON.stringify(shape)}`,
    `the oracle says ${expected.verdict} (${reasonText(expected)}), the kernel says ${verdict}`,
    scenarioText(scenario),
    compiler(policyOf(scenario), optionsFor(scenario.neighbourDiscovery)),
  ].join('\n');
}

function reasonText({ reason }: Decision): string {
  if (reason.kind !== 'rule') return reason.kind;
  return `${reason.direction} rule ${reason.index} of ${reason.group.name}: ${JSON.stringify(reason.rule)}`;
}
