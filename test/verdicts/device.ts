/** Owns the device of the clause tests: a lab with short words for what the clauses speak of. */
import type { Ruleset } from '../../src/nft/ast.ts';
import { compile } from '../../src/nft/compile/compile.ts';
import { canonicalize } from '../../src/policy/canonicalize.ts';
import type { Packet } from '../../src/policy/packet.ts';
import type { Verdict, VerdictLab } from '../lib/verdict-lab.ts';
import type { Shape } from '../lib/probe-bytes.ts';
import { optionsFor, productCompiler, updating } from './install.ts';
import { policyOfGroups, type WrittenGroup } from './table.ts';

/** Installs the groups on the device, all at once and from nothing. */
export async function apply(
  lab: VerdictLab,
  groups: readonly WrittenGroup[],
  neighbourDiscovery = false,
): Promise<void> {
  await lab.load(productCompiler(policyOfGroups(groups), optionsFor(neighbourDiscovery)));
}

/** The ruleset of one group, on an interface without neighbour discovery. */
export const rulesetOf = (group: WrittenGroup): Ruleset =>
  compile(canonicalize(policyOfGroups([group])), optionsFor(false));

/** Installs the group as the agent does: from whatever is there, by plan. */
export async function update(lab: VerdictLab, group: WrittenGroup): Promise<void> {
  await updating(lab, policyOfGroups([group]), optionsFor(false));
}

/** The kernel's verdict for each packet. */
export function verdicts(lab: VerdictLab, packets: readonly Packet[], shape?: Shape): Promise<Verdict[]> {
  return lab.probe(packets.map((packet) => (shape === undefined ? { packet } : { packet, shape })));
}

export interface ListedChain {
  readonly name: string;
  readonly hook?: string;
  readonly type?: string;
  readonly prio?: number;
  readonly policy?: string;
}

export interface Listing {
  readonly tables: readonly { readonly family: string; readonly name: string }[];
  readonly chains: readonly ListedChain[];
}

/** Tables and chains of the whole device, as the kernel lists them. The lab's own recorder is left out. */
export async function listing(lab: VerdictLab): Promise<Listing> {
  const { stdout } = await lab.device.run(['nft', '-j', 'list', 'ruleset']);
  const entries = (
    JSON.parse(stdout) as { nftables: { table?: Listing['tables'][number]; chain?: ListedChain & { table: string } }[] }
  ).nftables;
  return {
    tables: entries.flatMap(({ table }) => (table === undefined || table.name === 'recorder' ? [] : [table])),
    chains: entries.flatMap(({ chain }) => (chain === undefined || chain.table === 'recorder' ? [] : [chain])),
  };
}

/** The rules of a chain as nft writes them, in order. */
export async function rulesIn(lab: VerdictLab, chain: 'service-inbound' | 'service-outbound'): Promise<string[]> {
  const { stdout } = await lab.device.run(['nft', 'list', 'chain', 'inet', 'service', chain]);
  const lines = stdout.split('\n').map((line) => line.trim());
  return lines.filter((line) => line !== '' && !/^(table|chain|type|})/.test(line));
}
