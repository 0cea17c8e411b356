/** Owns the commands about policy as a whole: files, live changes, rulesets, explanations. */
import { Option, type Command } from 'commander';
import type { ApplyOptions } from './apply.ts';
import type { ExplainOptions } from './explain.ts';
import type { NftOptions } from './nft.ts';
import { addCommand, repeated } from '../command-line/client-command.ts';

export function addPolicyCommands(program: Command): void {
  addCommand<ApplyOptions>(
    program,
    {
      usage: 'apply',
      summary: 'make groups and devices as files say',
      about:
        'A file is YAML or JSON, with one document or several: `groups` (each with `name`, `description`, `inbound`, ' +
        '`outbound`; `default: true` for the default group, `owner: me` for one of your own) and `devices` (each with ' +
        '`device` and `groups`). Rules are words as in `group allow`, or records as the API has them. A group is taken ' +
        'whole: a direction that a file does not name has no rules. Applying a file twice changes nothing the second time.',
      options: [
        repeated('-f, --file <file>', 'a file, a folder of them, or - for stdin'),
        new Option('--dry-run', 'print what would change, and change nothing'),
        new Option('--prune', 'delete groups that no file names, of the owners that the files are about'),
      ],
      destructive: true,
      examples: [
        'ringfence apply -f groups.yaml --dry-run',
        'ringfence apply -f groups.yaml',
        'ringfence apply -f policy/ --prune --yes',
      ],
    },
    (session, { options }, work) => work.apply.apply(session, options),
  );
  addCommand(
    program,
    {
      usage: 'export',
      summary: 'print groups and devices as a file that `apply` reads',
      examples: ['ringfence export > backup.yaml', 'ringfence export -o json'],
    },
    (session, _, work) => work.apply.exportPolicy(session),
  );
  addCommand<{ readonly initial: boolean }>(
    program,
    {
      usage: 'watch [kinds...]',
      summary: 'follow changes as they happen',
      about:
        'Kinds are `device` and `security-groups`; none named, both. Resumes by itself when the connection is lost.',
      options: [new Option('--no-initial', 'leave out what is there already')],
      examples: [
        'ringfence watch',
        'ringfence watch device --no-initial',
        'ringfence watch -o json | jq .value.hostname',
      ],
    },
    (session, { args, options }, work) => work.watch.follow(session, args, options),
  );
  addCommand<NftOptions>(
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
    (session, { args: [text = ''], options }, work) => work.policy.showNft(session, text, options),
  );
  addCommand<ExplainOptions>(
    program,
    {
      usage: 'explain',
      summary: 'tell whether a connection is allowed, by which rule, or on which side it is refused',
      options: [
        new Option('--from <device|address>', 'where it comes from').makeOptionMandatory(),
        new Option('--to <device|address>', 'where it goes').makeOptionMandatory(),
        new Option('--proto <protocol>', 'tcp, udp, icmp, or the number of another').default('tcp'),
        new Option('--port <port>', 'destination port, for tcp and udp'),
        new Option('--exit-code', 'end with 1 when it is refused'),
      ],
      examples: [
        'ringfence explain --from edge-1 --to db-1 --port 5432',
        'ringfence explain --from 203.0.113.9 --to edge-1 --proto udp --port 53 --exit-code',
      ],
    },
    (session, { options }, work) => work.explain.explain(session, options),
  );
}
