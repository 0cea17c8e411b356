/** Owns the commands about security groups and their rules. */
import { Option, type Command } from 'commander';
import { addNoun, commandsOf, detachOption, repeated } from '../command-line/client-command.ts';
import type { EditOptions } from './edit.ts';
import type { NewGroup, RuleOptions } from './run.ts';

const addCommand = commandsOf(() => import('./run.ts'));
const addEditCommand = commandsOf(() => import('./edit.ts'));

const ruleWords =
  'A rule is `in` or `out`, a protocol (tcp, udp, icmp, icmpv6, ipv4, ipv6, ip), ports (one, a range, several with ' +
  'commas, services like ssh or postgres by name; none or `any` for all), and `from` (in) or `to` (out) the far end, with commas: addresses (single ones, CIDR prefixes or first-last), ' +
  'devices that carry a label (`label:app`) or all of several (`label:app+prod`), one device (`device:web-1`), `all-devices`; none or `any` for every address.\n\n' +
  'A group without inbound rules admits nothing but replies; one without outbound rules lets everything out.';

export const forceOption = (): Option =>
  new Option('--force', 'also where a guardrail would leave nothing of a direction');

export function addGroupCommands(program: Command): void {
  const group = addNoun(program, 'group', 'security groups: what devices let in and out');
  addCommand(
    group,
    { usage: 'list', summary: 'list the groups that you can see', examples: ['ringfence group list'] },
    (run, session) => run.list(session),
  );
  addCommand(
    group,
    {
      usage: 'show <group>',
      summary: 'show a group and its rules',
      about: '`default` is the default group of the organization.',
      examples: ['ringfence group show web', 'ringfence group show default -o yaml'],
    },
    (run, session, { args: [text = ''] }) => run.show(session, text),
  );
  addCommand<NewGroup>(
    group,
    {
      usage: 'create <name>',
      policy: true,
      dryRun: true,
      summary: 'create a group',
      about: ruleWords,
      options: [
        new Option('--description <text>', 'free text'),
        new Option('--mine', 'a group of my own, instead of one of the organization'),
        repeated('--in <rule>', 'an inbound rule in words'),
        repeated('--out <rule>', 'an outbound rule in words'),
        repeated(
          '--applies-to <devices>',
          'devices that have it without naming it: label:app, label:app+prod, all-devices',
        ),
        new Option(
          '--guardrail <kind>',
          'what the organization always forbids, or always requires, whatever other groups say (owners only)',
        ).choices(['forbid', 'require']),
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
      policy: true,
      dryRun: true,
      summary: 'change a group: in $EDITOR, from a file, or by options',
      about:
        'In the editor the group is a short YAML text. What is wrong with it is written above it, and you may try again. ' +
        'If somebody else changed the group in the meantime, nothing is written, and your text is kept.',
      options: [
        new Option('--name <name>', 'a new name'),
        new Option('--description <text>', 'free text'),
        new Option('-f, --file <file>', 'rules from a YAML or JSON file; - for stdin'),
        repeated('--applies-to <devices>', 'devices that have it without naming it; `none` for none'),
        forceOption(),
        detachOption(),
      ],
      examples: [
        'ringfence group edit web',
        'ringfence group edit web --applies-to label:web',
        'ringfence group edit web --name www',
        'ringfence group edit web -f web.yaml',
      ],
    },
    (run, session, { args: [text = ''], options }) => run.edit(session, text, options),
  );
  addCommand<{ readonly detach?: boolean }>(
    group,
    {
      usage: 'delete <group>',
      policy: true,
      dryRun: true,
      summary: 'delete a group; the default group is reset instead',
      options: [new Option('--detach', 'take it off the devices that use it; some may fall back to the default group')],
      destructive: true,
      examples: ['ringfence group delete web', 'ringfence group delete default --yes'],
    },
    (run, session, { args: [text = ''], options }) => run.remove(session, text, options),
  );
  addCommand<RuleOptions>(
    group,
    {
      usage: 'allow <group> <direction> <rule...>',
      policy: true,
      dryRun: true,
      summary: 'add a rule',
      about: ruleWords,
      options: [forceOption()],
      examples: [
        'ringfence group allow web in tcp 443 from 10.0.0.0/8,fd00::/8',
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
      dryRun: true,
      summary: 'remove a rule, written as `group show` prints it',
      about: '`all` removes every rule of the direction.',
      examples: [
        'ringfence group revoke web in tcp 443 from 10.0.0.0/8,fd00::/8',
        'ringfence group revoke web out all',
      ],
    },
    (run, session, { args }) => run.changeRules(session, 'revoke', args),
  );
}
