/** Owns the reading of addresses and routes through the program `ip`. */
import type { LocalAddresses, RoutedInterface, RouteTable, RouteLookup } from './route-table.ts';
import type { Run } from './run-command.ts';

export const commandRouteTable = (run: Run): RouteTable => ({
  readLocal: (interfaceName) => readLocal(run, interfaceName),
  over: (routed, ways) => over(run, routed, ways),
});

async function readLocal(run: Run, name: string): Promise<LocalAddresses> {
  const { stdout } = await run(['ip', '-j', 'address', 'show']);
  const links = JSON.parse(stdout.trim() === '' ? '[]' : stdout) as readonly {
    readonly ifindex?: number;
    readonly ifname?: string;
    readonly addr_info?: readonly { readonly local?: string }[];
  }[];
  const addresses = new Map<string, boolean>();
  for (const { ifname, addr_info = [] } of links) {
    for (const { local } of addr_info) {
      if (local !== undefined) addresses.set(local, addresses.get(local) === true || ifname === name);
    }
  }
  const index = links.find(({ ifname }) => ifname === name)?.ifindex ?? 0;
  return { addresses, interface: { name, index } };
}

const argsOf = ({ remote, local }: RouteLookup): readonly string[] => [
  remote,
  ...(local === undefined ? [] : ['from', local]),
];

async function over(
  run: Run,
  { name }: RoutedInterface,
  ways: readonly RouteLookup[],
): Promise<ReadonlySet<RouteLookup>> {
  const found = new Set<RouteLookup>();
  const note = (way: RouteLookup, answer: string): void => {
    if (/(?:^|\s)dev (\S+)/.exec(answer)?.[1] === name) found.add(way);
  };
  // A lookup without a route ends a batch of `ip` early, and the remaining replies can no longer be matched. Then each
  // lookup runs alone.
  const input = ways.map((way) => `route get ${argsOf(way).join(' ')}\n`).join('');
  const { code, stdout } = await run(['ip', '-o', '-batch', '-'], input);
  const answers = stdout.split('\n').filter((line) => line !== '');
  if (code === 0 && answers.length === ways.length) {
    for (const [i, way] of ways.entries()) note(way, answers[i] ?? '');
    return found;
  }
  for (const way of ways) note(way, (await run(['ip', '-o', 'route', 'get', ...argsOf(way)])).stdout);
  return found;
}
