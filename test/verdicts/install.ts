/** Owns the ways in which a policy under test gets into the kernel: the whole table anew, or an update as the agent makes it. */
import { changeOverNetlink } from '../../src/agent/kernel/netlink-batch.ts';
import type { Command, Ruleset } from '../../src/nft/ast.ts';
import { compile, type CompileOptions } from '../../src/nft/compile/compile.ts';
import type { Installed } from '../../src/nft/read/listing.ts';
import { parseListing } from '../../src/nft/read/parse-listing.fixture.ts';
import { parseInterfaceName } from '../../src/nft/names.ts';
import { plan, rebuild, type Update } from '../../src/nft/plan/plan.ts';
import { printCommands } from '../../src/nft/print.ts';
import { canonicalize, canonicalizeNames } from '../../src/policy/canonicalize.ts';
import type { EffectivePolicy } from '../../src/policy/effective.ts';
import { runQuickly } from '../lib/batch-runner.ts';
import { driver, type VerdictLab } from '../lib/verdict-lab.ts';

/** How a policy gets into the kernel: with `named`, by the names of devices instead of their addresses. */
export interface InstallOptions extends CompileOptions {
  readonly named?: boolean;
}

/** A policy in, out comes nft text that replaces the table in one transaction. */
export type Compiler = (policy: EffectivePolicy, options: InstallOptions) => string;

/** Puts a policy into the lab's kernel. */
export type Installer = (lab: VerdictLab, policy: EffectivePolicy, options: InstallOptions) => Promise<void>;

/** The ruleset of the product. */
export const rulesetOf = (policy: EffectivePolicy, { named, ...options }: InstallOptions): Ruleset =>
  compile((named === true ? canonicalizeNames(policy) : undefined) ?? canonicalize(policy), options);

/**
 * With `few`, short lists become rules, ports are bundled, both protocols look up one map and lists are cut into parts, as where a policy would make
 * too many sets and chains, or has long lists.
 */
export const optionsFor = (neighbourDiscovery: boolean, few?: number): CompileOptions => ({
  interface: parseInterfaceName(driver),
  neighbourDiscovery,
  mostSets: few,
  mostAlone: few,
  fewestInCommon: few,
  longestList: few === undefined ? undefined : few + 2,
});

export const rebuildText = (ruleset: Ruleset): string => printCommands(rebuild(ruleset));

export const productCompiler: Compiler = (policy, options) => rebuildText(rulesetOf(policy, options));

/** The whole table anew. */
export const replacing =
  (compiler: Compiler): Installer =>
  (lab, policy, options) =>
    lab.load(compiler(policy, options));

async function listRuleset(lab: VerdictLab): Promise<unknown> {
  return JSON.parse((await runQuickly(lab.device, ['nft', '-j', 'list', 'ruleset'])).stdout);
}

/** What the kernel holds. */
export const installed = async (lab: VerdictLab): Promise<Installed | undefined> =>
  parseListing(await listRuleset(lab));

/** The plan from what the kernel holds to the ruleset. */
export async function planFor(lab: VerdictLab, ruleset: Ruleset): Promise<Update> {
  const listing = await listRuleset(lab);
  const planned = plan(parseListing(listing), ruleset, parseListing(listing, 'service-forward'));
  if (planned.kind === 'tampered') throw new Error(`somebody changed ${planned.chains.join(', ')}`);
  return planned;
}

/** One transaction, over netlink as the agent makes it, or through nft where that is left to it; nothing to do is nothing done. */
export async function load(lab: VerdictLab, commands: readonly Command[]): Promise<void> {
  if (commands.length === 0) return;
  lab.netlink.start();
  if (!(await changeOverNetlink(lab.netlink, commands))) await lab.load(printCommands(commands));
}

/** From whatever is installed, in steps: stage, flip, collect. */
export const updating: Installer = async (lab, policy, options) => {
  const { members = [], stage, flip, collect } = await planFor(lab, rulesetOf(policy, options));
  for (const batch of members) await load(lab, batch);
  await load(lab, stage);
  await load(lab, flip);
  await load(lab, collect);
};
