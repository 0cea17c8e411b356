/** Owns the commands about security groups and their rules. */
import { Option, type Command } from 'commander';
import { addNoun, commandsOf, forceOption, repeated } from '../command-line/client-command.ts';
import type { CopyOptions, NewGroup, RuleOptions } from './run.ts';
import type { EditOptions } from './edit.ts';
import type { ObservationOptions } from './observation.ts';
import type { UsageOptions } from './usage.ts';

const addCommand = commandsOf(() => import('./run.ts'));
const addUsageCommand = commandsOf(() => import('./usage.ts'));
const addObservationCommand = commandsOf(() => import('./observation.ts'));
const addEditCommand = commandsOf(() => import('./edit.ts'));

const ruleWords =
  'A rule has four parts. First the direction: `in` or `out`. Then the protocol: tcp, udp, icmp, icmpv6, ipv4, ipv6 or ip. Then the ports: one, a range, or several with ' +
  'commas; service names such as ssh or postgres work too; leave the ports out or write `any` for all. Last the peers, after `from` (in) or `to` (out), with commas: addresses (single ones, CIDR prefixes or first-last), ' +
  'devices with a label (`label:app`) or with all of several labels (`label:app+prod`), one device (`device:web-1`), or `all-devices`; leave the peers out or write `any` for every address. ' +
  'A description may follow after ` # `; then put the rule in quotes.\n\n' +
  'A group without inbound rules admits only replies. A group without outbound rules lets all traffic out.';

export function addGroupCommands(program: Command): void {
  const group = addNoun(program, 'group', 'security groups: the traffic that devices let in and out');
  addCommand<{ readonly expiring?: boolean }>(
    group,
    {
      usage: 'list',
      summary: 'list the groups that you can see',
      options: [new Option('--expiring', 'list the rules that expire or have expired, the earliest first')],
      examples: ['ringfence group list', 'ringfence group list --expiring'],
    },
    (run, session, { options }) => run.list(session, options),
  );
  addCommand(
    group,
    {
      usage: 'show <group>',
      summary: 'show a group and its rules',
      about: '`default` names the default group of the organization.',
      examples: ['ringfence group show web', 'ringfence group show default -o yaml'],
    },
    (run, session, { args: [text = ''] }) => run.show(session, text),
  );
  addUsageCommand<UsageOptions>(
    group,
    {
      usage: 'usage <group>',
      summary: 'show which rules of a group decided the observed traffic',
      about:
        'Usage comes from recorded traffic: set `observe` of the organization to `all`. A rule is `unused` only if all traffic of the devices that have the group was observed since the rule exists; otherwise it is `unknown`.',
      options: [new Option('--since <time>', 'start of the window: 24h, 7d, or a time').default('7d')],
      examples: ['ringfence group usage web', 'ringfence group usage web --since 14d -o json'],
    },
    (run, session, { args: [text = ''], options }) => run.usage(session, text, options),
  );
  addObservationCommand<ObservationOptions>(
    group,
    {
      usage: 'observation <group>',
      summary: 'show what a watch-only group would have refused and admitted',
      about:
        'The server judges the recorded traffic of the devices that would have the group by two policies, with the group and without it. To see what it would refuse, set `observe` of the organization to `all`.',
      options: [new Option('--since <time>', 'start of the window: 24h, 7d, or a time').default('7d')],
      examples: ['ringfence group observation web', 'ringfence group observation web --since 14d -o json'],
    },
    (run, session, { args: [text = ''], options }) => run.observation(session, text, options),
  );
  addCommand(
    group,
    {
      usage: 'observe <group>',
      asksIfUnsure: true,
      policy: true,
      trial: true,
      dryRun: true,
      summary: 'make a group watch only: it decides nothing, and `group observation` says what it would do',
      about: 'Devices keep exactly the policy that they would have without the group.',
      options: [forceOption()],
      detach: true,
      examples: ['ringfence group observe web', 'ringfence group observe web --dry-run'],
    },
    (run, session, { args: [text = ''] }) => run.setMode(session, text, 'observe'),
  );
  addCommand(
    group,
    {
      usage: 'enforce <group>',
      asksIfUnsure: true,
      policy: true,
      trial: true,
      dryRun: true,
      summary: 'let a watch-only group enforce',
      options: [forceOption()],
      examples: [
        'ringfence group enforce web --dry-run',
        'ringfence group enforce web --confirm-within 10m --on label:canary',
      ],
    },
    (run, session, { args: [text = ''] }) => run.setMode(session, text, 'enforce'),
  );
  addCommand<CopyOptions>(
    group,
    {
      usage: 'copy <group> <name>',
      asksIfUnsure: true,
      policy: true,
      trial: true,
      dryRun: true,
      summary: 'create a group with the rules and the description of another',
      about: 'The copy applies to no device until you add it to devices, or say to which it applies by label.',
      options: [
        new Option('--mine', 'create a personal group instead of a group of the organization'),
        repeated('--applies-to <devices>', 'apply the copy to these devices automatically: label:app, all-devices'),
        forceOption(),
      ],
      examples: ['ringfence group copy web web-next', 'ringfence group copy web staging --applies-to label:staging'],
    },
    (run, session, { args: [text = '', name = ''], options }) => run.copy(session, text, name, options),
  );
  addCommand(
    group,
    {
      usage: 'rename <group> <name>',
      asksIfUnsure: true,
      policy: true,
      trial: true,
      dryRun: true,
      summary: 'rename a group; its rules and devices stay',
      options: [forceOption()],
      examples: ['ringfence group rename web frontend'],
    },
    (run, session, { args: [text = '', name = ''] }) => run.rename(session, text, name),
  );
  addCommand<NewGroup>(
    group,
    {
      usage: 'create <name>',
      asksIfUnsure: true,
      policy: true,
      trial: true,
      dryRun: true,
      summary: 'create a group',
      about: ruleWords,
      options: [
        new Option('--description <text>', 'free text'),
        new Option('--mine', 'create a personal group instead of a group of the organization'),
        repeated('--in <rule>', 'an inbound rule'),
        repeated('--out <rule>', 'an outbound rule'),
        repeated(
          '--applies-to <devices>',
          'apply it to these devices automatically: label:app, label:app+prod, all-devices',
        ),
        new Option(
          '--guardrail <kind>',
          'always forbid or always require these rules, regardless of other groups (owners only)',
        ).choices(['forbid', 'require']),
        new Option('--observe', 'create it watch only: it decides nothing until `group enforce`'),
        new Option('-f, --file <file>', 'rules from a YAML or JSON file; - for stdin'),
        forceOption(),
      ],
      examples: [
        'ringfence group create web --in "tcp 80,443" --in "icmp"',
        'ringfence group create db --in "postgres from label:app" --applies-to label:db',
        'ringfence group create no-telnet --guardrail forbid --applies-to all-devices --in "tcp 23"',
        'ringfence group create mine --mine -f rules.yaml',
      ],
    },
    (run, session, { args: [name = ''], options }) => run.create(session, name, options),
  );
  addEditCommand<EditOptions>(
    group,
    {
      usage: 'edit <group>',
      asksIfUnsure: true,
      policy: true,
      trial: true,
      dryRun: true,
      summary: 'change a group: in $EDITOR, from a file, or by options',
      about:
        'The editor shows the group as YAML. If it has errors, the editor opens again with the errors at the top. ' +
        'If someone else changes the group in the meantime, the command changes nothing and saves your text in a file.',
      options: [
        new Option('--name <name>', 'a new name'),
        new Option('--description <text>', 'free text'),
        new Option('-f, --file <file>', 'rules from a YAML or JSON file; - for stdin'),
        repeated('--applies-to <devices>', 'apply it to these devices automatically; `none` for no devices'),
        forceOption(),
      ],
      detach: true,
      examples: [
        'ringfence group edit web',
        'ringfence group edit web --applies-to label:web',
        'ringfence group edit web --name www',
        'ringfence group edit web -f web.yaml',
      ],
    },
    (run, session, { args: [text = ''], options }) => run.edit(session, text, options),
  );
  addCommand(
    group,
    {
      usage: 'delete <group>',
      policy: true,
      dryRun: true,
      summary: 'delete a group; the default group is reset instead',
      options: [
        new Option(
          '--detach',
          'remove it from the devices that use it; the default group may then apply to some of them',
        ),
      ],
      destructive: true,
      examples: ['ringfence group delete web', 'ringfence group delete default --yes'],
    },
    (run, session, { args: [text = ''] }) => run.remove(session, text),
  );
  addCommand<RuleOptions>(
    group,
    {
      usage: 'allow <group> <direction> <rule...>',
      asksIfUnsure: true,
      policy: true,
      trial: true,
      dryRun: true,
      summary: 'add a rule',
      about: ruleWords,
      options: [
        new Option('--for <duration>', 'how long the rule lives: 30m, 2h, 7d, or until a time'),
        new Option('--description <text>', 'what the rule is for; or write it after ` # ` at the end of the rule'),
        forceOption(),
      ],
      examples: [
        'ringfence group allow web in tcp 22 from label:admin --for 2h',
        'ringfence group allow web in tcp 443 from 10.0.0.0/8,fd00::/8',
        'ringfence group allow web in tcp 8080 from label:proxy --description "health checks"',
        'ringfence group allow web in tcp 8443 --confirm-within 2m --on label:canary',
        'ringfence group allow db in tcp 5432 from label:app',
        'ringfence group allow db in tcp 22 from label:app+prod,device:bastion',
        'ringfence group allow web in tcp 8000-8999 --dry-run',
        'ringfence group allow web out udp 53 to any',
      ],
    },
    (run, session, { args, options }) => run.changeRules(session, 'allow', args, options),
  );
  addCommand(
    group,
    {
      usage: 'revoke <group> <direction> <rule...>',
      policy: true,
      trial: true,
      dryRun: true,
      summary: 'remove a rule, written as `group show` prints it',
      about: '`all` removes every rule of the direction.',
      options: [forceOption()],
      examples: [
        'ringfence group revoke web in tcp 443 from 10.0.0.0/8,fd00::/8',
        'ringfence group revoke web out all',
      ],
    },
    (run, session, { args }) => run.changeRules(session, 'revoke', args),
  );
}
