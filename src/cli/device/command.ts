/** Owns the commands about devices and the groups applied to them. */
import { Option, type Command } from 'commander';
import { addNoun, commandsOf, repeated } from '../command-line/client-command.ts';
import type { LabelFilter, ListChange } from './change-each.ts';
import type { IsolateOptions } from './isolation.ts';
import type { MoveOptions, DeviceFields, ListOptions } from './run.ts';

const addCommand = commandsOf(() => import('./run.ts'));
const addGroupsCommand = commandsOf(() => import('./groups.ts'));
const addLabelCommand = commandsOf(() => import('./change-each.ts'));
const addIsolationCommand = commandsOf(() => import('./isolation.ts'));
const addStatusCommand = commandsOf(() => import('./status.ts'));

const fieldOptions = (): readonly Option[] => [
  new Option('--tunnel-ip <address>', 'address inside the tunnel'),
  new Option('--local-ip <address:port>', 'where the device listens, with the port'),
  new Option('--reflexive-ip4 <address>', 'public IPv4 address, as other hosts see it'),
  new Option('--endpoint-local-address-ip4 <address>', 'IPv4 address on the local network'),
  repeated('--child-prefix <cidr>', 'a prefix behind the device; `none` removes them'),
  repeated('--address <address>', 'another address of the device, besides the tunnel address; `none` removes them'),
  repeated('--label <label>', 'a label of the device; `none` removes them (owners only)'),
  new Option('--relay <yes|no>', 'whether it relays traffic'),
  new Option('--discovery <yes|no>', 'whether it is a discovery node'),
  new Option('--symmetric-nat <yes|no>', 'whether it is behind a symmetric NAT'),
];

const manyDevices =
  'A pattern such as `web-*` (in quotes) selects every device whose host name matches. To select every device that has a label, use --label instead of a device.';
const labelForm =
  'A label has 1 to 63 characters: a-z, 0-9, `.`, `_`, `/` and `-`. It starts and ends with a letter or digit. A device has up to 32 labels.';

const labelFilter = (): Option => repeated('--label <label>', 'every device with this label');

export function addDeviceCommands(program: Command): void {
  const device = addNoun(program, 'device', 'devices, and the groups applied to them');
  addCommand<ListOptions>(
    device,
    {
      usage: 'list',
      summary: 'list devices',
      options: [
        repeated('--label <label>', 'only devices with this label'),
        new Option(
          '--state <state>',
          'only devices in this state: yes, behind, failed, reverted, offline, never_seen, not_understood',
        ),
      ],
      examples: ['ringfence device list', 'ringfence device list --label app', 'ringfence device list --state offline'],
    },
    (run, session, { options }) => run.list(session, options),
  );
  addCommand(
    device,
    { usage: 'show <device>', summary: 'show a device', examples: ['ringfence device show edge-1'] },
    (run, session, { args: [text = ''] }) => run.show(session, text),
  );
  addCommand<DeviceFields>(
    device,
    {
      usage: 'create <hostname>',
      dryRun: true,
      policy: true,
      summary: 'register a device; its device token is shown only once',
      about: 'An agent with an enrollment key registers its own device: see `ringfence key create`.',
      options: [
        new Option('--public-key <key>', 'tunnel public key, unique in the organization').makeOptionMandatory(),
        new Option('--user <name|id>', 'for another member (owners only)'),
        repeated('--group <name|id>', 'a group to apply instead of the default group'),
        ...fieldOptions(),
      ],
      examples: [
        'ringfence device create edge-1 --public-key "$(wg pubkey < key)" --tunnel-ip 100.64.0.7',
        'ringfence device create app-1 --public-key "$KEY" --label app --label prod',
      ],
    },
    (run, session, { args: [hostname = ''], options }) => run.create(session, hostname, options),
  );
  addCommand<DeviceFields>(
    device,
    {
      usage: 'edit <device>',
      policy: true,
      dryRun: true,
      summary: 'change the fields of a device',
      options: [
        new Option('--hostname <name>', 'a new host name'),
        new Option('--public-key <key>', 'a new tunnel public key'),
        ...fieldOptions(),
      ],
      detach: true,
      examples: ['ringfence device edit edge-1 --hostname edge-01', 'ringfence device edit edge-1 --relay yes'],
    },
    (run, session, { args: [text = ''], options }) => run.edit(session, text, options),
  );
  addCommand(
    device,
    {
      usage: 'rename <device> <hostname>',
      policy: true,
      dryRun: true,
      summary: 'give a device another host name',
      about:
        'Rules and files that name the device by its id still mean it. The command changes nothing on the machine.',
      examples: ['ringfence device rename edge-1 edge-01'],
    },
    (run, session, { args: [text = '', hostname = ''] }) => run.rename(session, text, hostname),
  );
  addCommand<MoveOptions>(
    device,
    {
      usage: 'move <device>',
      policy: true,
      dryRun: true,
      summary: 'give a device to another member (owners only)',
      about:
        'Groups that belong to the old user leave the device. Its labels, its other groups and its isolation stay. The device token stays valid, also for anyone who copied it, until the new user replaces its secret with `ringfence token rotate`.',
      options: [new Option('--user <name|id>', 'the new user, a member of the organization').makeOptionMandatory()],
      detach: true,
      examples: ['ringfence device move web-7 --user ada', 'ringfence device move web-7 --user ada --dry-run'],
    },
    (run, session, { args: [text = ''], options }) => run.move(session, text, options),
  );
  addCommand(
    device,
    {
      usage: 'delete <device>',
      policy: true,
      dryRun: true,
      summary: 'delete a device and revoke its device token',
      about: 'A pattern such as `old-*` (in quotes) selects every device whose host name matches.',
      destructive: true,
      examples: ['ringfence device delete edge-1', "ringfence device delete 'old-*'"],
    },
    (run, session, { args: [text = ''] }) => run.remove(session, text),
  );
  addIsolationCommand<IsolateOptions>(
    device,
    {
      usage: 'isolate <device>',
      dryRun: true,
      policy: 'untested',
      destructive: true,
      summary: 'cut a device off from every other device (owners only)',
      about:
        'The device keeps its connection to the server, and exchanges traffic only with the devices that --allow names. Every other device of the organization refuses its addresses, so that root on the device cannot lift the isolation. The command shows these addresses and who set each. Leave out an address that others need, such as that of a DNS server, which the device may list to harm them. Isolating an isolated device replaces the isolation.',
      options: [
        new Option('--reason <text>', 'why; every member can read it').makeOptionMandatory(),
        new Option('--for <duration>', 'how long, such as 30m, 4h or 2d; without it, until `device release`'),
        repeated(
          '--allow <devices>',
          'devices that may still talk to it: `label:forensics`, `device:lab-1` or `all-devices`',
        ),
        repeated('--leave-out <address>', 'an address of the device that other devices still need and do not refuse'),
      ],
      examples: [
        "ringfence device isolate web-7 --for 4h --reason 'suspicious logins'",
        "ringfence device isolate web-7 --reason 'suspicious logins' --allow label:forensics --wait",
      ],
    },
    (run, session, { args: [text = ''], options }) => run.isolate(session, text, options),
  );
  addIsolationCommand(
    device,
    {
      usage: 'release <device>',
      dryRun: true,
      policy: 'untested',
      summary: 'end the isolation of a device (owners only)',
      examples: ['ringfence device release web-7'],
    },
    (run, session, { args: [text = ''] }) => run.release(session, text),
  );
  addStatusCommand(
    device,
    {
      usage: 'status',
      summary: 'list every device: whether its policy is in force, when it was last seen, what its agent reported',
      examples: ['ringfence device status'],
    },
    (run, session) => run.status(session),
  );

  const groups = addNoun(device, 'groups', 'the groups of a device; without groups, the default group applies');
  addGroupsCommand(
    groups,
    {
      usage: 'list <device>',
      summary: 'list the groups in effect on a device, and the reason for each',
      about:
        'A group is in effect because the device lists it, because it applies by label, because it is a guardrail, or because it is the default group.',
      examples: ['ringfence device groups list edge-1'],
    },
    (run, session, { args: [text = ''] }) => run.listGroups(session, text),
  );
  const changeGroups = (way: ListChange, usage: string, summary: string, examples: readonly string[]) =>
    addGroupsCommand<LabelFilter>(
      groups,
      {
        usage,
        summary,
        about: manyDevices,
        options: [labelFilter()],
        detach: true,
        examples,
        policy: true,
        trial: true,
        dryRun: true,
      },
      (run, session, { args, options }) => run.changeGroups(session, way, args, options),
    );
  changeGroups(
    'set',
    'set [device] [groups...]',
    'set the groups of a device; without groups, the default group applies',
    ['ringfence device groups set edge-1 web ssh', 'ringfence device groups set edge-1'],
  );
  changeGroups('add', 'add [device] [groups...]', 'add groups to a device', [
    'ringfence device groups add edge-1 web',
    "ringfence device groups add 'web-*' web ssh",
    'ringfence device groups add --label app web',
  ]);
  changeGroups('remove', 'remove [device] [groups...]', 'remove groups from a device', [
    'ringfence device groups remove edge-1 ssh',
  ]);

  const label = addNoun(device, 'label', 'labels of devices (owners set them)');
  const changeLabels = (way: ListChange, usage: string, summary: string, examples: readonly string[]) =>
    addLabelCommand<LabelFilter>(
      label,
      {
        usage,
        summary,
        about: `${labelForm} A label has an effect only when a rule or a group names it.\n\n${manyDevices}`,
        options: [labelFilter()],
        detach: true,
        policy: true,
        dryRun: true,
        examples,
      },
      (run, session, { args, options }) => run.changeLabels(session, way, args, options),
    );
  changeLabels('add', 'add [device] [labels...]', 'add labels to a device', [
    'ringfence device label add web-1 app prod',
    "ringfence device label add 'web-*' app",
  ]);
  changeLabels('remove', 'remove [device] [labels...]', 'remove labels from a device', [
    'ringfence device label remove web-1 prod',
    'ringfence device label remove --label app canary',
  ]);
  changeLabels('set', 'set [device] [labels...]', 'set the labels of a device; without labels, remove all', [
    'ringfence device label set web-1 app prod',
    'ringfence device label set web-1',
  ]);
}
