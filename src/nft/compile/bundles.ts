/** Owns the bundling of very many small parts into fewer chains, because a chain costs the kernel more than a rule. */
import type { Addresses, PortInterval, PortNode } from '../../policy/canonical.ts';
import { hasNoAddress } from '../../policy/address-sets.ts';

/** So many small parts have chains of their own, which is easier to read and to change. */
const mostAloneByDefault = 1_024;
/** Ports are bundled by blocks of 16, wherever other ports begin and end: a change touches the chains around it only. */
const blockBits = 4;
/** Rules that a small part may have. */
const mostRules = 2;

const rulesOf = ({ v4, v6, shares }: Addresses): number =>
  shares === undefined ? v4.length + v6.length : shares.reduce((sum, share) => sum + rulesOf(share), 0);

const isInterval = (node: PortNode): node is PortInterval => 'addresses' in node;

/** Ascending nodes in runs: those of a run become one chain. */
export function bundle<N extends PortNode>(nodes: readonly N[], mostAlone = mostAloneByDefault): (readonly N[])[] {
  const uses = new Map<Addresses, number>();
  for (const node of nodes) if (isInterval(node)) uses.set(node.addresses, (uses.get(node.addresses) ?? 0) + 1);
  // What several ports have in common is one chain for all of them already.
  const isSmall = (node: PortNode): boolean =>
    isInterval(node) &&
    uses.get(node.addresses) === 1 &&
    !hasNoAddress(node.addresses) &&
    node.addresses.names === undefined &&
    rulesOf(node.addresses) <= mostRules;
  if (nodes.filter(isSmall).length <= mostAlone) return nodes.map((node) => [node]);
  const runs: N[][] = [];
  let open: N[] | undefined;
  for (const node of nodes) {
    const first = open?.[0];
    if (!isSmall(node)) {
      runs.push([node]);
      open = undefined;
    } else if (open !== undefined && first !== undefined && first.from >> blockBits === node.from >> blockBits) {
      open.push(node);
    } else {
      open = [node];
      runs.push(open);
    }
  }
  return runs;
}
