/** Owns the commands about policy as a whole: files, rulesets, explanations. */
import { Option, type Command } from 'commander';
import type { DiffOptions } from './diff.ts';
import type { ExplainOptions } from './explain-endpoints.ts';
import type { NftOptions } from './nft.ts';
import type { ApplyOptions } from './apply.ts';
import type { ExportOptions } from './export.ts';
import type { FormatOptions } from './policy-files.ts';
import { addNoun, commandsOf, forceOption, repeated } from '../command-line/client-command.ts';

const addApply = commandsOf(() => import('./apply.ts'));
const addDiff = commandsOf(() => import('./diff.ts'));
const addExport = commandsOf(() => import('./export.ts'));
const addFiles = commandsOf(() => import('./policy-files.ts'));
const addNft = commandsOf(() => import('./nft.ts'));
const addExplain = commandsOf(() => import('./explain.ts'));

const fileFormat =
  'A file is YAML or JSON, with one document or several: `groups` (each with `name`, `description`, `inbound`, ' +
  '`outbound`, `applies_to` as in `group create --applies-to`, `guardrail`, `mode: observe` for a watch-only group; `default: true` for the default group, `owner: me` for a personal group) and `devices` (each with ' +
  '`device`, `groups` and `labels`; fields that you leave out do not change; `id` selects the device with this id, regardless of its name), and `tests` (each with ' +
  '`name`, `from`, `to`, `protocol`, `port`, `expect` as `allow` or `refuse`, and `note`). Write rules as in `group allow`, or as API records. A file describes a whole ' +
  'group: a direction that you leave out has no rules. Rules that expire and that the file does not name stay until then. Applying the same file twice changes nothing the second time.';

const pastOptions = (): readonly Option[] => [
  new Option('--at <time>', 'look at this time: 2026-11-09, 2026-11-09T10:00 (local time), or 90d, 12h, 30m ago'),
  new Option('--at-revision <revision>', 'look at this revision of the organization'),
];

const fileOptions = (): readonly Option[] => [
  repeated('-f, --file <file>', 'a file, a folder of them, or - for stdin'),
  new Option(
    '--prune',
    'delete groups that are missing from the files, for each owner that has groups in the files; and tests, if the files have tests',
  ),
];

function addFileCommands(program: Command): void {
  const policy = addNoun(program, 'policy', 'policy files on this machine; these commands ask no server');
  addFiles<FormatOptions>(
    policy,
    {
      usage: 'fmt [files...]',
      summary: 'format policy files: one order of fields, one indentation',
      about:
        'The command writes the files in place. Comments, the order of groups, rules, devices and tests, and the meaning stay. With - it reads stdin and prints.',
      options: [
        repeated('-f, --file <file>', 'a file, a folder of them, or - for stdin'),
        new Option('--check', 'write nothing; name the files that are not formatted, and exit with 1 if there are any'),
      ],
      examples: ['ringfence policy fmt policy/', 'ringfence policy fmt --check policy/'],
    },
    (run, session, { args, options }) => run.formatFiles(session, args, options),
  );
  addFiles(
    policy,
    {
      usage: 'schema',
      summary: 'print the JSON schema of policy files, for editors',
      about:
        'Save it next to your files, and write `# yaml-language-server: $schema=policy.schema.json` into their first line. The schema checks the structure; `ringfence diff` also checks rules and names.',
      examples: ['ringfence policy schema > policy.schema.json'],
    },
    (run, session) => run.printSchema(session),
  );
}

export function addPolicyCommands(program: Command): void {
  addFileCommands(program);
  addApply<ApplyOptions>(
    program,
    {
      usage: 'apply [files...]',
      policy: true,
      trial: true,
      summary: 'change groups, devices and policy tests to match policy files',
      about: `${fileFormat}\n\nThe command shows the changes and asks before it writes. In a script, it writes only with --yes. It writes everything as one change: all of it or nothing, and each device switches once. A change that leaves a device without groups is asked about; in a script, it needs --detach. More than 1,000 records are written as several changes, and the command says so.`,
      options: [
        ...fileOptions(),
        forceOption(),
        new Option('--accept-moved', 'apply even if names refer to different devices than before'),
      ],
      detach: true,
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
      summary: 'show what `apply` would change, and which devices gain and lose access',
      about: fileFormat,
      options: [
        ...fileOptions(),
        new Option(
          '--detailed-exitcode',
          'exit with 2 if something would change, with 1 after an error, and with 0 otherwise',
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
      summary: 'print groups, devices and policy tests as a file that `apply` reads',
      about:
        'The file contains the id of each device, so that it always refers to this device, even after names change. ' +
        'To use the file in another organization, export with --names-only.',
      options: [
        new Option('--names-only', 'write devices by name, without their ids'),
        ...pastOptions(),
        new Option(
          '--snapshot',
          'print all records as JSON, with addresses, for `ringfence test --snapshot`; `apply` does not read it',
        ),
      ],
      examples: [
        'ringfence export > backup.yaml',
        'ringfence export --snapshot > fleet.json',
        'ringfence export --at-revision 120 > before.yaml',
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
      about:
        'For a device, the ruleset comes from its groups, or from the default group. For a group, it is the ruleset of a device that has only this group.',
      options: [
        new Option('--interface <name>', 'the driver interface').default('wg0').env('RINGFENCE_INTERFACE'),
        new Option('--neighbour-discovery', 'the interface uses neighbor discovery (not a tunnel)'),
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
        'Give the source, the destination and the port: `explain app-1 db-1 5432`; or use options. In place of the port, `ping` asks for an echo request. With --who, give only the ' +
        'destination and the port, to list every device that may connect there. With --from alone, it lists what the source can reach. The output shows what the policy says, and whether the devices enforce it. ' +
        'Every address of a device counts: a connection is allowed if two addresses of one family may connect, and the output names the addresses between which it is refused.',
      options: [
        new Option('--from <device|address>', 'the source'),
        new Option('--to <device|address>', 'the destination'),
        new Option('--who', 'list the devices that may connect to the destination'),
        new Option('--proto <protocol>', 'tcp, udp, icmp, or a protocol number').default('tcp'),
        new Option('--port <port>', 'destination port, for tcp and udp: a number, or a service like ssh'),
        new Option('--exit-code', 'exit with 1 if the connection is refused'),
        ...pastOptions(),
        new Option(
          '--keep [name]',
          'keep it this way: add a policy test that expects this answer for these two ends (owners only)',
        ),
        new Option('--skip-tests', 'with --keep: add the test even if it fails (owners only; the log records it)'),
      ],
      examples: [
        'ringfence explain app-1 db-1 5432',
        "ringfence explain app-1 db-1 5432 --keep 'app reaches db'",
        'ringfence explain --who db-1 5432',
        'ringfence explain --from app-1',
        'ringfence explain app-1 db-1 5432 --at 2026-11-09T10:00',
        'ringfence explain --from 203.0.113.9 --to edge-1 --proto udp --port 53 --exit-code',
      ],
    },
    (run, session, { args, options }) => run.explain(session, args, options),
  );
}
