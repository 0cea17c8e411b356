/** Owns the commands about policy as a whole: files, rulesets, explanations. */
import { Option, type Command } from 'commander';
import type { DiffOptions } from './diff.ts';
import type { ExplainOptions } from './explain-endpoints.ts';
import type { NftOptions } from './nft.ts';
import type { ApplyOptions } from './apply.ts';
import type { ExportOptions } from './export.ts';
import { commandsOf, detachOption, repeated } from '../command-line/client-command.ts';
import { forceOption } from '../group/command.ts';

const addApply = commandsOf(() => import('./apply.ts'));
const addDiff = commandsOf(() => import('./diff.ts'));
const addExport = commandsOf(() => import('./export.ts'));
const addNft = commandsOf(() => import('./nft.ts'));
const addExplain = commandsOf(() => import('./explain.ts'));

const fileFormat =
  'A file is YAML or JSON, with one document or several: `groups` (each with `name`, `description`, `inbound`, ' +
  '`outbound`, `applies_to` as in `group create --applies-to`, `guardrail`; `default: true` for the default group, `owner: me` for one of your own) and `devices` (each with ' +
  '`device`, `groups` and `labels`; what it does not name stays as it is; with `id` it is the device with this id, whatever is called so). Rules are written as in `group allow`, or as records of the API. A group is taken ' +
  'whole: a direction that a file does not name has no rules. Applying a file twice changes nothing the second time.';

const fileOptions = (): readonly Option[] => [
  repeated('-f, --file <file>', 'a file, a folder of them, or - for stdin'),
  new Option('--prune', 'delete groups that no file names, of the owners that the files are about'),
];

export function addPolicyCommands(program: Command): void {
  addApply<ApplyOptions>(
    program,
    {
      usage: 'apply [files...]',
      policy: true,
      summary: 'change groups and devices to match policy files',
      about: `${fileFormat}\n\nShows what would change and asks before it writes. In a script, where nobody can answer, it writes only with --yes. What would take the last group from a device comes last; if it still would, it is asked for, and in a script needs --detach.`,
      options: [
        ...fileOptions(),
        forceOption(),
        detachOption(),
        new Option('--accept-moved', 'apply although names mean other devices than before'),
      ],
      dryRun: true,
      destructive: true,
      examples: [
        'ringfence apply groups.yaml',
        'ringfence apply -f groups.yaml --dry-run',
        'ringfence apply -f policy/ --prune --yes',
      ],
    },
    (run, session, { args, options }) => run.apply(session, args, options),
  );
  addDiff<DiffOptions>(
    program,
    {
      usage: 'diff [files...]',
      summary: 'show what `apply` would change',
      about: fileFormat,
      options: [
        ...fileOptions(),
        new Option(
          '--detailed-exitcode',
          'end with 2 when something would change, with 1 after any error, and with 0 otherwise',
        ),
      ],
      examples: ['ringfence diff -f groups.yaml', 'ringfence diff policy/ --detailed-exitcode'],
    },
    (run, session, { args, options }) => run.diff(session, args, options),
  );
  addExport<ExportOptions>(
    program,
    {
      usage: 'export',
      summary: 'print groups and devices as a file that `apply` reads',
      about:
        'A device is written with its id, so that the file always means this device, whatever another one is called later. ' +
        'With --names-only it is written by name, for another organization.',
      options: [new Option('--names-only', 'write devices by name, without their ids')],
      examples: [
        'ringfence export > backup.yaml',
        'ringfence export -o json',
        'ringfence export --names-only > new.yaml',
      ],
    },
    (run, session, { options }) => run.exportPolicy(session, options),
  );
  addNft<NftOptions>(
    program,
    {
      usage: 'nft <group|device>',
      summary: 'print the nftables ruleset that a device would get',
      about: 'For a device: from its groups, or the default group. For a group: as if a device had this group alone.',
      options: [
        new Option('--interface <name>', 'the driver interface').default('wg0').env('RINGFENCE_INTERFACE'),
        new Option('--neighbour-discovery', 'the interface does neighbour discovery (no tunnel)'),
      ],
      examples: ['ringfence nft edge-1 --interface wg0', 'ringfence nft web | sudo nft -c -f -'],
    },
    (run, session, { args: [text = ''], options }) => run.showNft(session, text, options),
  );
  addExplain<ExplainOptions>(
    program,
    {
      usage: 'explain [ends...]',
      summary: 'check whether a connection is allowed, which rule decides, and whether the devices enforce it',
      about:
        'Give where it comes from, where it goes and the port: `explain app-1 db-1 5432`; or the same by options. With --who, only where it ' +
        'goes and the port: every device that may connect there. The policy is one answer; whether the devices have it in force is the other.',
      options: [
        new Option('--from <device|address>', 'where it comes from'),
        new Option('--to <device|address>', 'where it goes'),
        new Option('--who', 'list who may connect there'),
        new Option('--proto <protocol>', 'tcp, udp, icmp, or the number of another').default('tcp'),
        new Option('--port <port>', 'destination port, for tcp and udp: a number, or a service like ssh'),
        new Option('--exit-code', 'end with 1 when it is refused'),
      ],
      examples: [
        'ringfence explain app-1 db-1 5432',
        'ringfence explain --who db-1 5432',
        'ringfence explain --from 203.0.113.9 --to edge-1 --proto udp --port 53 --exit-code',
      ],
    },
    (run, session, { args, options }) => run.explain(session, args, options),
  );
}
