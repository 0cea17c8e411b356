/** Owns the commands about policy tests. */
import { Option, type Command } from 'commander';
import { addNoun, commandsOf, repeated, skipTestsOption } from '../command-line/client-command.ts';
import type { AddOptions, TestOptions } from './run.ts';

const addCommand = commandsOf(() => import('./run.ts'));

const states =
  'A test is passing, failing or vacuous. A vacuous test checks nothing, because no pair of devices matches it. ' +
  'The command exits with 1 if a test fails, and with 0 if tests are vacuous, unless you use --vacuous-fails.';

const offline =
  'With files, the command never asks a server. It says what the tests would be after `ringfence apply` of these files. ' +
  'It starts from a snapshot that `ringfence export --snapshot` wrote. Without a snapshot, it knows only the groups and devices in the files: ' +
  'devices have no addresses, so rules by address match none of them, and the default group is that of a new organization.';

export function addTestCommand(program: Command): void {
  const test = addNoun(program, 'test', 'policy tests: what must be allowed or refused, and whether it is');
  addCommand<TestOptions>(
    test,
    {
      usage: 'run [files...]',
      isDefault: true,
      summary: 'run the policy tests of the organization, or those of policy files without a server',
      about: `This is what \`ringfence test\` does. The server also runs the tests inside every write that can change a verdict, and refuses a write that breaks one.\n\n${states}\n\n${offline}`,
      options: [
        repeated('-f, --file <file>', 'a policy file, a folder of them, or - for stdin'),
        new Option('--snapshot <file>', 'with files: what the organization has, from `ringfence export --snapshot`'),
        new Option('--prune', 'with files: as `ringfence apply --prune` would leave it'),
        new Option('--vacuous-fails', 'exit with 1 also if a test is vacuous'),
      ],
      examples: [
        'ringfence test run',
        'ringfence test run --vacuous-fails -o json',
        'ringfence test run -f policy.yaml',
        'ringfence test run -f policy/ --snapshot fleet.json --vacuous-fails',
      ],
    },
    (run, session, { args, options }) => run.runTests(session, args, options),
  );
  addCommand(
    test,
    {
      usage: 'list',
      summary: 'list policy tests with their states',
      examples: ['ringfence test list', 'ringfence test list -o yaml'],
    },
    (run, session) => run.listTests(session),
  );
  addCommand<AddOptions>(
    test,
    {
      usage: 'add <name>',
      summary: 'add a policy test, or replace the one with this name (owners only)',
      about:
        'The ends are `label:app`, `label:app+prod`, `device:web-1`, `all-devices` or an address. `allow` means that every pair may connect, `refuse` that no pair may. ' +
        'The server refuses a test that fails, unless you use --skip-tests.',
      options: [
        new Option('--from <devices|address>', 'who opens the connection').makeOptionMandatory(),
        new Option('--to <devices|address>', 'who accepts the connection').makeOptionMandatory(),
        new Option('--proto <protocol>', 'tcp, udp or icmp').choices(['tcp', 'udp', 'icmp']).default('tcp'),
        new Option('--port <port>', 'destination port, for tcp and udp: a number, or a service like ssh'),
        new Option('--expect <verdict>', 'what the policy must say').choices(['allow', 'refuse']).makeOptionMandatory(),
        new Option('--note <text>', 'why, for people'),
        skipTestsOption(),
      ],
      dryRun: true,
      examples: [
        "ringfence test add 'app reaches db' --from label:app --to label:db --port postgres --expect allow",
        "ringfence test add 'no ssh from outside' --from 203.0.113.9 --to all-devices --port ssh --expect refuse",
      ],
    },
    (run, session, { args: [name = ''], options }) => run.addTest(session, name, options),
  );
  addCommand(
    test,
    {
      usage: 'remove <name>',
      summary: 'remove a policy test (owners only)',
      destructive: true,
      dryRun: true,
      examples: ["ringfence test remove 'app reaches db'"],
    },
    (run, session, { args: [name = ''] }) => run.removeTest(session, name),
  );
}
