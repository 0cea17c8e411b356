/** Owns the chain that keeps the agent's access to its server open, and its decompilation (reference 1.2 (24)). */
import type { RangeSet } from '../../policy/range.ts';
import type { Family } from '../../policy/rule.ts';
import { resolverPort, type ServerAccess } from '../../policy/server-access.ts';
import { accept, node, portsMatch, rule, type Match, type Rule, type TransportName } from '../ast.ts';
import { reasonCounter } from '../counters.ts';
import { printRules } from '../print.ts';

type Plain = ServerAccess['addresses'];

const to = (family: Family, { v4, v6 }: Plain): Match[] => {
  const ranges = family === 4 ? v4 : v6;
  return ranges.length === 0 ? [] : [node({ kind: 'address', family, side: 'daddr', ranges })];
};

const rulesTo = (addresses: Plain, transport: TransportName, port: number): Rule[] =>
  ([4, 6] as const)
    .flatMap((family) => to(family, addresses))
    .map((match) =>
      rule([match, portsMatch({ from: port, to: port }, { transport })], accept, reasonCounter('outbound', 'server')),
    );

/** What is admitted: TCP to the server, UDP and TCP to the resolvers. It only lets out what is new; answers are established. */
export const serverAccessRules = ({ addresses, port, resolvers }: ServerAccess): readonly Rule[] => [
  ...rulesTo(addresses, 'tcp', port),
  ...rulesTo(resolvers, 'udp', resolverPort),
  ...rulesTo(resolvers, 'tcp', resolverPort),
];

/** The access that these rules are; nothing where we would not have written them so. */
export function readServerAccess(rules: readonly Rule[]): ServerAccess | undefined {
  const addressesAt = (wanted: readonly Rule[]): Plain => {
    const of = (family: Family): RangeSet =>
      wanted.flatMap(({ matches }) =>
        matches.flatMap((match) => (match.kind === 'address' && match.family === family ? [...match.ranges] : [])),
      );
    return { v4: of(4), v6: of(6) };
  };
  const portOf = ({ matches }: Rule): Extract<Match, { kind: 'ports' }> | undefined =>
    matches.find((match) => match.kind === 'ports');
  const udp = rules.filter((each) => portOf(each)?.transport === 'udp');
  // The rules for resolvers by TCP stand last, as many as those by UDP.
  const server = rules.filter((each) => !udp.includes(each)).slice(0, rules.length - 2 * udp.length);
  const access: ServerAccess = {
    addresses: addressesAt(server),
    port: server[0] === undefined ? 0 : (portOf(server[0])?.from ?? 0),
    resolvers: addressesAt(udp),
  };
  return printRules(serverAccessRules(access)) === printRules(rules) ? access : undefined;
}
