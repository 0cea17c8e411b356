/** Owns the command that lists observed traffic. */
import { Option, type Command } from 'commander';
import { commandsOf } from '../command-line/client-command.ts';
import type { FlowsOptions } from './run.ts';

const addCommand = commandsOf(() => import('./run.ts'));

export function addFlowsCommand(program: Command): void {
  addCommand<FlowsOptions>(
    program,
    {
      usage: 'flows [device]',
      summary: 'show refused and admitted traffic, newest first, with the rule that decides',
      about:
        'Agents record traffic only if an owner asks for it: `ringfence org edit ORG --observe refused`. For refused traffic you see the nearest rule and what did not match. ' +
        'Names and rules are the present ones. Without a device you see all devices that you may read: owners all, others their own. ' +
        'With --follow, `-o json` prints one line for each sum; agents report once a minute.',
      options: [
        new Option('--refused', 'only traffic that was refused').conflicts('admitted'),
        new Option('--admitted', 'only traffic that was admitted'),
        new Option('--direction <direction>', 'only to the device (in) or from it (out)').choices(['in', 'out']),
        new Option('--far <end>', 'only with this far end: a device, an address or a range of addresses'),
        new Option('--protocol <protocol>', 'tcp, udp, icmp, icmpv6 or a number'),
        new Option('--port <port>', 'only to this port'),
        new Option('--since <time>', 'only from this time on').default('1h'),
        new Option('--until <time>', 'only until this time'),
        new Option('--limit <number>', 'maximum number of lines; with --follow, of earlier ones').default('50'),
        new Option('--follow', 'then show new traffic as agents report it, until Ctrl-C').conflicts('until'),
      ],
      examples: [
        'ringfence flows db-1 --refused --since 1h',
        'ringfence flows --refused --port 5432',
        'ringfence flows db-1 --far app-1 --since 7d -o json',
        'ringfence flows --refused --follow -o json | jq -r .far',
      ],
    },
    (run, session, { args: [device], options }) => run.flows(session, device, options),
  );
}
