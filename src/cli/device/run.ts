/** Owns the implementation of the device commands. */
import type { Device, UpdateDevice } from '../../api/device.ts';
import { usageError } from '../terminal/exit.ts';
import { readLabelOption, readLabels } from '../terminal/label.ts';
import { askAbout } from '../session/ask-about.ts';
import type { Session } from '../session/session.ts';
import type { InForce } from '../../api/enforcement/in-force.ts';
import { agentText, packetLines, readState, stateLines, statusesOf, stateWords } from './status.ts';
import { idColumn, type Fields } from '../terminal/table.ts';
import { shortTime } from '../terminal/time.ts';
import { allDevices, deviceName, findDevice, pickDevice, pickDevices, withLabels } from '../lookup/device.ts';
import { writeOrAsk, writeChanges } from '../lookup/write-changes.ts';
import { groupIds, allGroups } from '../lookup/group.ts';
import { userNames, find, members } from '../lookup/resource.ts';
import { printDevices, sayEffect, type LabelFilter } from './change-each.ts';
import { fieldLines } from '../../client/words/changes.ts';
import { printable } from '../../policy/names/printable.ts';
import { groupNames, groupsForTable, reasonWords } from './groups.ts';
import { devicesForIsolation, isolationLines } from './isolation.ts';

export interface DeviceFields {
  readonly hostname?: string;
  readonly publicKey?: string;
  readonly user?: string;
  readonly group?: readonly string[];
  readonly tunnelIp?: string;
  readonly localIp?: string;
  readonly reflexiveIp4?: string;
  readonly endpointLocalAddressIp4?: string;
  readonly childPrefix?: readonly string[];
  readonly address?: readonly string[];
  readonly label?: readonly string[];
  readonly relay?: string;
  readonly discovery?: string;
  readonly symmetricNat?: string;
}

function readFlag(option: string, text: string | undefined): boolean | undefined {
  if (text === undefined) return undefined;
  if (/^(yes|true|on)$/i.test(text)) return true;
  if (/^(no|false|off)$/i.test(text)) return false;
  throw usageError(`--${option} is \`yes\` or \`no\`, not \`${text}\``);
}

/** Entries with or without commas; `none` for an empty list. */
function readList(texts: readonly string[] | undefined): readonly string[] | undefined {
  if (texts === undefined) return undefined;
  const entries = texts.flatMap((text) => text.split(',')).filter((text) => text !== '');
  return entries.includes('none') ? [] : entries;
}

function readPrefixes(texts: readonly string[] | undefined): readonly string[] | null | undefined {
  const prefixes = readList(texts);
  return prefixes?.length === 0 ? null : prefixes;
}

/** What the options say in the words of the wire; nothing about what they do not name. */
function wireFields(options: DeviceFields): UpdateDevice {
  const fields = {
    hostname: options.hostname,
    public_key: options.publicKey,
    tunnel_ip: options.tunnelIp,
    local_ip: options.localIp,
    reflexive_ip4: options.reflexiveIp4,
    endpoint_local_address_ip4: options.endpointLocalAddressIp4,
    child_prefix: readPrefixes(options.childPrefix),
    addresses: readList(options.address),
    labels: options.label === undefined ? undefined : readLabelOption(options.label),
    relay: readFlag('relay', options.relay),
    discovery: readFlag('discovery', options.discovery),
    symmetric_nat: readFlag('symmetric-nat', options.symmetricNat),
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

export interface ListOptions extends LabelFilter {
  /** Only devices whose policy is in this state. */
  readonly state?: string;
}

export async function list(session: Session, { label = [], state }: ListOptions): Promise<void> {
  const wanted = readLabels(label);
  const word = state === undefined ? undefined : readState(state);
  const [all, statuses, groups, nameOf] = await Promise.all([
    allDevices(session),
    word !== undefined || session.isForPeople ? statusesOf(session) : [],
    groupsForTable(session),
    userNames(session),
  ]);
  const states = new Map<string, InForce>(statuses.map(({ device_id, in_force }) => [device_id, in_force]));
  const devices = withLabels(all, wanted).filter(({ id }) => word === undefined || states.get(id) === word);
  const isFiltered = wanted.length > 0 || state !== undefined;
  await session.printList(devices, {
    none: isFiltered
      ? 'No device matches.'
      : 'No devices yet. To create a key that lets agents register devices, run `ringfence key create`.',
    sortBy: 'hostname',
    columns: (layout) => [
      { head: 'HOSTNAME', text: ({ hostname }) => hostname },
      idColumn<Device>('ID', ({ id }) => id, layout),
      {
        head: 'STATE',
        text: ({ id, isolated }) => stateWords(states.get(id) ?? 'never_seen', isolated !== undefined),
      },
      { head: 'TUNNEL IP', text: ({ tunnel_ip }) => tunnel_ip },
      { head: 'ADDRESSES', text: ({ addresses = [] }) => addresses.join(', '), wide: true },
      { head: 'LABELS', text: ({ labels = [] }) => labels.join(', ') },
      { head: 'GROUPS', text: (device) => groupNames(device, groups).join(', ') },
      { head: 'USER', text: ({ user_id }) => nameOf(user_id), wide: true },
      { head: 'REVISION', text: ({ revision }) => String(revision), align: 'right', wide: true },
      { head: 'UPDATED', text: ({ updated_at }) => shortTime(updated_at), wide: true },
    ],
  });
}

export async function show(session: Session, text: string): Promise<void> {
  const [device, groups, nameOf] = await Promise.all([
    findDevice(session, text),
    groupsForTable(session),
    userNames(session),
  ]);
  const client = await session.client();
  const [applied, statuses] = session.isForPeople
    ? await Promise.all([client.devices.groups(device.organization_id, device.id), statusesOf(session)])
    : [[], []];
  const state = statuses.find(({ device_id }) => device_id === device.id);
  const groupName = (id: string): string => groups.find((group) => group.id === id)?.group_name ?? id;
  const flag = (value: boolean): string => (value ? 'yes' : '');
  const fields: Fields = [
    ['hostname', device.hostname],
    ['id', device.id],
    ['isolated', isolationLines(device, await devicesForIsolation(session, device))],
    ['state', stateLines(state)],
    ['agent', agentText(state)],
    ['user', nameOf(device.user_id)],
    ['public key', device.public_key],
    ['labels', (device.labels ?? []).join(', ')],
    ['tunnel ip', device.tunnel_ip],
    ['addresses', (device.addresses ?? []).join(', ')],
    ['local ip', device.local_ip],
    ['reflexive ip4', device.reflexive_ip4],
    ['endpoint local address ip4', device.endpoint_local_address_ip4],
    ['child prefix', device.child_prefix ?? []],
    ['relay', flag(device.relay)],
    ['discovery', flag(device.discovery)],
    ['symmetric nat', flag(device.symmetric_nat)],
    ['packets', packetLines(state, groupName)],
    ['groups', applied.map(({ group_id, by }) => `${groupName(group_id)} (${reasonWords[by]})`)],
    ['revision', String(device.revision)],
    ['created', shortTime(device.created_at)],
    ['updated', shortTime(device.updated_at)],
  ];
  await session.printRecord(
    device,
    fields.filter(([, value]) => value.length > 0),
  );
}

export async function create(session: Session, hostname: string, options: DeviceFields): Promise<void> {
  const client = await session.client();
  const organization = await session.organization();
  const fields = wireFields(options);
  const security_groups = options.group === undefined ? [] : await groupIds(session, options.group);
  const body = {
    ...fields,
    hostname,
    public_key: options.publicKey ?? '',
    ...(options.user !== undefined && { user_id: (await find(session, members, options.user)).user_id }),
    ...(security_groups.length > 0 && { security_groups }),
  };
  const device = await client.devices.create(organization, body, session.testQuery);
  await session.printRecord(
    device,
    [
      ['hostname', device.hostname],
      ['id', device.id],
      ['device token', device.device_token],
    ],
    device.device_token,
  );
  session.say('Save the device token now. You cannot see it again.');
}

export async function edit(session: Session, text: string, options: DeviceFields): Promise<void> {
  const body = wireFields(options);
  if (Object.keys(body).length === 0)
    throw usageError('nothing to change: give a field such as --hostname; --help lists all fields');
  const client = await session.client();
  const devices = await allDevices(session);
  const { id, organization_id, ...now } = pickDevice(devices, text);
  if (body.hostname !== undefined && body.hostname !== now.hostname)
    await askAboutHostname(session, devices, body.hostname);
  if (session.values.dryRun === true) {
    for (const [sign, line] of fieldLines(now, { ...now, ...body })) session.say(`${sign} ${printable(line)}`);
    return sayEffect(session, { devices: [{ id, ...body }] });
  }
  const device = await writeOrAsk(session, (asked) =>
    client.devices.update(organization_id, id, body, { ...session.writeQuery, ...asked }),
  );
  if (device.revision === now.revision) return session.printRecord(device, 'Nothing to change: already up to date.');
  const renamed = now.hostname === device.hostname ? undefined : deviceName({ id, hostname: now.hostname });
  const isRename = renamed !== undefined && Object.keys(body).length === 1;
  const done = isRename ? `Renamed device ${renamed} to ${deviceName(device)}` : `Changed device ${deviceName(device)}`;
  return session.printRecord(device, `${done} (${device.id}).`);
}

/** Two devices may have one host name; commands then find them by id only. */
function askAboutHostname(session: Session, devices: readonly Device[], hostname: string): Promise<void> {
  const same = devices.filter((device) => device.hostname === hostname && hostname !== '');
  return askAbout(
    session,
    same
      .slice(0, 1)
      .map(({ id }) => ({ text: `another device already has the host name ${hostname} (${id}).`, asks: true })),
  );
}

export async function rename(session: Session, text: string, hostname: string): Promise<void> {
  if (hostname.trim() === '') throw usageError('give the new host name');
  return edit(session, text, { hostname });
}

export async function remove(session: Session, text: string): Promise<void> {
  const { devices, isMany } = pickDevices(await allDevices(session), text);
  const names = devices.map(deviceName).join(', ');
  if (session.values.dryRun === true) {
    for (const device of devices) session.say(`- device ${printable(deviceName(device))}`);
    return sayEffect(session, { delete: devices.map(({ id }) => id) });
  }
  const question = isMany ? `Delete ${devices.length} devices: ${names}?` : `Delete device ${names}?`;
  if (!(await session.confirm(question))) return session.say('Nothing was changed.');
  await writeChanges(session, { delete: devices.map(({ id }) => id) });
  return printDevices(
    session,
    { devices, isMany },
    devices,
    (device) => `Deleted device ${deviceName(device)} (${device.id}).`,
  );
}

export interface MoveOptions {
  readonly user: string;
}

export async function move(session: Session, text: string, { user }: MoveOptions): Promise<void> {
  const client = await session.client();
  const device = await findDevice(session, text);
  const { user_id, username } = await find(session, members, user);
  const { id, organization_id, security_groups = [] } = device;
  if (device.user_id === user_id)
    return session.printRecord(device, `Device ${deviceName(device)} (${id}) already belongs to ${username}.`);
  const owned = (await allGroups(session)).filter((group) => group.user_id === device.user_id);
  const leaving = owned.filter((group) => security_groups.includes(group.id));
  if (session.values.dryRun === true) {
    const nameOf = await userNames(session);
    const change = fieldLines({ user: nameOf(device.user_id) }, { user: username });
    for (const [sign, line] of change) session.say(`${sign} ${printable(line)}`);
    for (const { group_name } of leaving) session.say(`- group ${printable(group_name)}`);
    const stay = security_groups.filter((group) => !leaving.some((one) => one.id === group));
    return sayEffect(session, { devices: [{ id, security_groups: stay }] });
  }
  const moved = await writeOrAsk(session, (asked) =>
    client.devices.move(organization_id, id, { user_id }, { ...session.testQuery, ...asked }),
  );
  if (leaving.length > 0) {
    const names = leaving.map(({ group_name }) => group_name).join(', ');
    session.say(`Groups of the old user left the device: ${printable(names)}.`);
  }
  const token = `Its token stays valid, also for anyone who copied it, until ${username} rotates it.`;
  return session.printRecord(moved, `Moved device ${deviceName(moved)} (${id}) to ${username}. ${token}`);
}
