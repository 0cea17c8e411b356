/** Owns the commands about observed traffic: the list of it, and rules that would admit it. */
import { Option, type Command } from 'commander';
import { commandsOf } from '../command-line/client-command.ts';
import type { ProposeOptions } from './propose.ts';
import type { FlowsOptions } from './run.ts';

const addCommand = commandsOf(() => import('./run.ts'));
const addProposal = commandsOf(() => import('./propose.ts'));

export function addFlowsCommands(program: Command): void {
  addCommand<FlowsOptions>(
    program,
    {
      usage: 'flows [device]',
      summary: 'show refused and admitted traffic, newest first, with the rule that decides',
      about:
        'Agents record traffic only if an owner asks for it: `ringfence org edit ORG --observe refused`. For refused traffic you see the nearest rule and what did not match. ' +
        'Names and rules are the present ones. Without a device you see all devices that you may read: owners all, others their own. ' +
        'With --follow, `-o json` prints one line for each sum; agents report once a minute. Traffic of which a device reports more than two minutes late, because it was away, is not shown there: list it afterwards.',
      options: [
        new Option('--device <device>', 'only of this device; `--device` may be left out'),
        new Option('--refused', 'only traffic that was refused').conflicts('admitted'),
        new Option('--admitted', 'only traffic that was admitted'),
        new Option('--direction <direction>', 'only to the device (in) or from it (out)').choices(['in', 'out']),
        new Option('--far <end>', 'only with this far end: a device, an address or a range of addresses'),
        new Option('--protocol <protocol>', 'tcp, udp, icmp, icmpv6 or a number'),
        new Option('--port <port>', 'only to this port: a number, or a service like ssh'),
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
  addProposal<ProposeOptions>(
    program,
    {
      usage: 'propose <device|selector...>',
      summary: 'propose rules that would admit the observed traffic of some devices (owners only)',
      about:
        'Name devices, or one `label:db` or `label:db+prod`. Agents record admitted traffic only if an owner asks for it: `ringfence org edit ORG --observe all`. ' +
        'For each rule you see what was observed, and which devices its labels would admit that were not seen; then what the rules would refuse, and how much was observed. ' +
        'An address that a device merely lists stays an address, with the devices that list it. ' +
        'Nothing is written on the server. With --out you get a policy file with a watch-only group: read and edit it, then `ringfence apply` it.',
      options: [
        new Option('--since <time>', 'traffic from this time on').default('7d'),
        new Option('--include-refused', 'also for connections that the device at the far end refused'),
        new Option('--out <file>', 'write a policy file with the group, which is watch only; an existing file stays'),
      ],
      examples: [
        'ringfence propose label:db',
        'ringfence propose label:db --since 14d --out db.yaml',
        'ringfence propose db-1 db-2 -o json',
      ],
    },
    (run, session, { args, options }) => run.propose(session, args, options),
  );
}
