/** Owns the commands about devices and the groups applied to them. */
import { Option, type Command } from 'commander';
import { addNoun, commandsOf, detachOption, repeated } from '../command-line/client-command.ts';
import type { LabelFilter, ListChange } from './change-each.ts';
import type { LabelOptions } from './labels.ts';
import type { DeviceFields, EditOptions, ListOptions } from './run.ts';

const addCommand = commandsOf(() => import('./run.ts'));
const addGroupsCommand = commandsOf(() => import('./groups.ts'));
const addLabelCommand = commandsOf(() => import('./labels.ts'));
const addStatusCommand = commandsOf(() => import('./status.ts'));

const fieldOptions = (): readonly Option[] => [
  new Option('--tunnel-ip <address>', 'address inside the tunnel'),
  new Option('--local-ip <address:port>', 'where the device listens, with the port'),
  new Option('--reflexive-ip4 <address>', 'IPv4 address that the world sees'),
  new Option('--endpoint-local-address-ip4 <address>', 'IPv4 address on the local network'),
  repeated('--child-prefix <cidr>', 'a prefix behind the device, `none` for none'),
  repeated('--address <address>', 'an address of its own besides that of the tunnel, `none` for none'),
  repeated('--label <label>', 'what the device is, `none` for nothing (owners only)'),
  new Option('--relay <yes|no>', 'whether it relays traffic'),
  new Option('--discovery <yes|no>', 'whether it is a discovery node'),
  new Option('--symmetric-nat <yes|no>', 'whether it stands behind a symmetric NAT'),
];

const manyDevices =
  'A pattern such as `web-*` (in quotes, for the shell) means every device whose host name matches; --label in the place of a device means every device that carries the label.';
const labelForm =
  'A label is 1 to 63 of a-z, 0-9, `.`, `_`, `/` and `-`, beginning and ending with a letter or digit; a device has up to 32.';

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
        new Option('--state <state>', 'only those: yes, behind, failed, reverted, offline, never_seen, not_understood'),
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
      policy: true,
      summary: 'register a device; its device token is shown only once',
      about: 'An agent that has an enrollment key registers its device by itself: see `ringfence key create`.',
      options: [
        new Option('--public-key <key>', 'tunnel public key, unique in the organization').makeOptionMandatory(),
        new Option('--user <name|id>', 'for another member (owners only)'),
        repeated('--group <name|id>', 'a group to apply, instead of the default group'),
        ...fieldOptions(),
      ],
      examples: [
        'ringfence device create edge-1 --public-key "$(wg pubkey < key)" --tunnel-ip 100.64.0.7',
        'ringfence device create app-1 --public-key "$KEY" --label app --label prod',
      ],
    },
    (run, session, { args: [hostname = ''], options }) => run.create(session, hostname, options),
  );
  addCommand<EditOptions>(
    device,
    {
      usage: 'edit <device>',
      policy: true,
      summary: 'change the fields of a device',
      options: [
        new Option('--hostname <name>', 'a new host name'),
        new Option('--public-key <key>', 'a new tunnel public key'),
        ...fieldOptions(),
        detachOption(),
      ],
      examples: ['ringfence device edit edge-1 --hostname edge-01', 'ringfence device edit edge-1 --relay yes'],
    },
    (run, session, { args: [text = ''], options }) => run.edit(session, text, options),
  );
  addCommand(
    device,
    {
      usage: 'delete <device>',
      policy: true,
      summary: 'delete a device and revoke its device token',
      about: 'A pattern such as `old-*` (in quotes, for the shell) means every device whose host name matches.',
      destructive: true,
      examples: ['ringfence device delete edge-1', "ringfence device delete 'old-*'"],
    },
    (run, session, { args: [text = ''] }) => run.remove(session, text),
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

  const groups = addNoun(device, 'groups', 'the groups applied to a device; with none, the default group applies');
  addGroupsCommand(
    groups,
    {
      usage: 'list <device>',
      summary: 'list the groups in effect on a device, and why each is',
      about:
        'A group has a say because the list of the device names it, because it applies by label, because it is a guardrail, or because it is the default group.',
      examples: ['ringfence device groups list edge-1'],
    },
    (run, session, { args: [text = ''] }) => run.listGroups(session, text),
  );
  const changeGroups = (way: ListChange, usage: string, summary: string, examples: readonly string[]) =>
    addGroupsCommand<LabelFilter>(
      groups,
      { usage, summary, about: manyDevices, options: [labelFilter()], examples, policy: true, dryRun: true },
      (run, session, { args, options }) => run.changeGroups(session, way, args, options),
    );
  changeGroups('set', 'set [device] [groups...]', 'set the groups of a device; with none, the default group applies', [
    'ringfence device groups set edge-1 web ssh',
    'ringfence device groups set edge-1',
  ]);
  changeGroups('add', 'add [device] [groups...]', 'add groups to a device', [
    'ringfence device groups add edge-1 web',
    "ringfence device groups add 'web-*' web ssh",
    'ringfence device groups add --label app web',
  ]);
  changeGroups('remove', 'remove [device] [groups...]', 'remove groups from a device', [
    'ringfence device groups remove edge-1 ssh',
  ]);

  const label = addNoun(device, 'label', 'labels, which say what a device is (set by owners)');
  const changeLabels = (way: ListChange, usage: string, summary: string, examples: readonly string[]) =>
    addLabelCommand<LabelOptions>(
      label,
      {
        usage,
        summary,
        about: `${labelForm} A label changes nothing by itself: rules and groups name it.\n\n${manyDevices}`,
        options: [labelFilter(), detachOption()],
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
  changeLabels('set', 'set [device] [labels...]', 'set the labels of a device; with none, it has none', [
    'ringfence device label set web-1 app prod',
    'ringfence device label set web-1',
  ]);
}
