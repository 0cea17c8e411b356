/** Owns the commands about devices and the groups applied to them. */
import { Option, type Command } from 'commander';
import { addNoun, commandsOf, repeated } from '../command-line/client-command.ts';
import type { ListChange } from './change-each.ts';
import type { DeviceFields } from './run.ts';

const addCommand = commandsOf(() => import('./run.ts'));
const addGroupsCommand = commandsOf(() => import('./groups.ts'));

const fieldOptions = (): readonly Option[] => [
  new Option('--tunnel-ip <address>', 'address inside the tunnel'),
  new Option('--local-ip <address:port>', 'where the device listens, with the port'),
  new Option('--reflexive-ip4 <address>', 'IPv4 address that the world sees'),
  new Option('--endpoint-local-address-ip4 <address>', 'IPv4 address on the local network'),
  repeated('--child-prefix <cidr>', 'a prefix behind the device, `none` for none'),
  new Option('--relay <yes|no>', 'whether it relays traffic'),
  new Option('--discovery <yes|no>', 'whether it is a discovery node'),
  new Option('--symmetric-nat <yes|no>', 'whether it stands behind a symmetric NAT'),
];

const manyDevices = 'A pattern such as `web-*` (in quotes, for the shell) means every device whose host name matches.';

export function addDeviceCommands(program: Command): void {
  const device = addNoun(program, 'device', 'devices, and the groups applied to them');
  addCommand(
    device,
    { usage: 'list', summary: 'list devices', examples: ['ringfence device list', 'ringfence device list -o json'] },
    (run, session) => run.list(session),
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
      summary: 'register a device; its device token is shown only once',
      about: 'An agent that has an enrollment key registers its device by itself: see `ringfence key create`.',
      options: [
        new Option('--public-key <key>', 'tunnel public key, unique in the organization').makeOptionMandatory(),
        new Option('--user <name|id>', 'for another member (owners only)'),
        repeated('--group <name|id>', 'a group to apply, instead of the default group'),
        ...fieldOptions(),
      ],
      examples: ['ringfence device create edge-1 --public-key "$(wg pubkey < key)" --tunnel-ip 100.64.0.7'],
    },
    (run, session, { args: [hostname = ''], options }) => run.create(session, hostname, options),
  );
  addCommand<DeviceFields>(
    device,
    {
      usage: 'edit <device>',
      summary: 'change the fields of a device',
      options: [
        new Option('--hostname <name>', 'a new host name'),
        new Option('--public-key <key>', 'a new tunnel public key'),
        ...fieldOptions(),
      ],
      examples: ['ringfence device edit edge-1 --hostname edge-01', 'ringfence device edit edge-1 --relay yes'],
    },
    (run, session, { args: [text = ''], options }) => run.edit(session, text, options),
  );
  addCommand(
    device,
    {
      usage: 'delete <device>',
      summary: 'delete a device and revoke its device token',
      about: manyDevices,
      destructive: true,
      examples: ['ringfence device delete edge-1', "ringfence device delete 'old-*'"],
    },
    (run, session, { args: [text = ''] }) => run.remove(session, text),
  );
  addCommand(
    device,
    {
      usage: 'status',
      summary: 'list what the agents last reported',
      examples: ['ringfence device status'],
    },
    (run, session) => run.status(session),
  );

  const groups = addNoun(device, 'groups', 'the groups applied to a device; with none, the default group applies');
  const change = (way: ListChange, usage: string, summary: string, examples: readonly string[]) =>
    addGroupsCommand(
      groups,
      { usage, summary, about: manyDevices, examples },
      (run, session, { args: [text = '', ...names] }) => run.changeGroups(session, way, text, names),
    );
  change('set', 'set <device> [groups...]', 'set the groups of a device; with none, the default group applies', [
    'ringfence device groups set edge-1 web ssh',
    'ringfence device groups set edge-1',
  ]);
  change('add', 'add <device> <groups...>', 'add groups to a device', [
    'ringfence device groups add edge-1 web',
    "ringfence device groups add 'web-*' web ssh",
  ]);
  change('remove', 'remove <device> <groups...>', 'remove groups from a device', [
    'ringfence device groups remove edge-1 ssh',
  ]);
}
