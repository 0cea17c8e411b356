/** Owns what the device commands do. */
import type { Device, UpdateDevice } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { usageError } from '../terminal/exit.ts';
import { findOne } from '../session/find-one.ts';
import { changeSafely } from '../session/retry.ts';
import type { Session } from '../session/session.ts';
import { renderFields, renderTable } from '../terminal/table.ts';
import { shortTime } from '../terminal/time.ts';
import { allDevices, deviceName, findDevice } from '../lookup/device.ts';
import { allGroups, groupIds } from '../lookup/group.ts';

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

function readPrefixes(texts: readonly string[] | undefined): readonly string[] | null | undefined {
  if (texts === undefined) return undefined;
  const prefixes = texts.flatMap((text) => text.split(',')).filter((text) => text !== '');
  return prefixes.length === 0 || prefixes.includes('none') ? null : prefixes;
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
    relay: readFlag('relay', options.relay),
    discovery: readFlag('discovery', options.discovery),
    symmetric_nat: readFlag('symmetric-nat', options.symmetricNat),
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** The names of the groups that bind a device; one that the reader may not see is shown by its id. */
function groupNames({ security_groups = [] }: Device, groups: readonly SecurityGroup[]): readonly string[] {
  if (security_groups.length === 0) {
    return [`${groups.find(({ is_default }) => is_default === true)?.group_name ?? 'default'} (default)`];
  }
  return security_groups.map((id) => groups.find((group) => group.id === id)?.group_name ?? id);
}

export async function list(session: Session): Promise<void> {
  const [devices, groups] = await Promise.all([allDevices(session), groupsForTable(session)]);
  await session.print({
    data: devices,
    ids: devices.map(({ id }) => id),
    table: (paint) =>
      renderTable(
        [
          { head: 'HOSTNAME', text: ({ hostname }) => hostname },
          { head: 'ID', text: ({ id }) => id },
          { head: 'TUNNEL IP', text: ({ tunnel_ip }) => tunnel_ip },
          { head: 'GROUPS', text: (device) => groupNames(device, groups).join(', ') },
          { head: 'REVISION', text: ({ revision }) => String(revision), align: 'right' },
        ],
        devices,
        paint,
      ),
  });
}

/** Only a table shows groups by name. */
const groupsForTable = async (session: Session): Promise<readonly SecurityGroup[]> =>
  session.values.output === 'table' && session.values.quiet !== true ? allGroups(session) : [];

export async function show(session: Session, text: string): Promise<void> {
  const [device, groups] = await Promise.all([findDevice(session, text), groupsForTable(session)]);
  const flag = (value: boolean): string => (value ? 'yes' : 'no');
  await session.print({
    data: device,
    ids: [device.id],
    table: (paint) =>
      renderFields(
        [
          ['hostname', device.hostname],
          ['id', device.id],
          ['user', device.user_id],
          ['public key', device.public_key],
          ['tunnel ip', device.tunnel_ip],
          ['local ip', device.local_ip],
          ['reflexive ip4', device.reflexive_ip4],
          ['endpoint local address ip4', device.endpoint_local_address_ip4],
          ['child prefix', device.child_prefix ?? []],
          ['relay', flag(device.relay)],
          ['discovery', flag(device.discovery)],
          ['symmetric nat', flag(device.symmetric_nat)],
          ['groups', groupNames(device, groups)],
          ['revision', String(device.revision)],
          ['created', shortTime(device.created_at)],
          ['updated', shortTime(device.updated_at)],
        ],
        paint,
      ),
  });
}

export async function create(session: Session, hostname: string, options: DeviceFields): Promise<void> {
  const { signal } = session;
  const client = await session.client();
  const organization = await session.organization();
  const fields = wireFields(options);
  const security_groups = options.group === undefined ? [] : await groupIds(session, options.group);
  const device = await client.devices.create(
    organization,
    {
      ...fields,
      hostname,
      public_key: options.publicKey ?? '',
      ...(options.user !== undefined && { user_id: await memberId(session, options.user) }),
      ...(security_groups.length > 0 && { security_groups }),
    },
    { signal },
  );
  await session.print({
    data: device,
    ids: [device.device_token],
    table: (paint) =>
      renderFields(
        [
          ['hostname', device.hostname],
          ['id', device.id],
          ['device token', device.device_token],
        ],
        paint,
      ),
  });
  session.say('Save the device token now: it is not shown again.');
}

async function memberId(session: Session, text: string): Promise<string> {
  const client = await session.client();
  const members = await client.members.list(await session.organization(), { signal: session.signal });
  return findOne('member', text, members, ({ user_id, username }) => ({ id: user_id, names: [username] })).user_id;
}

export async function edit(session: Session, text: string, options: DeviceFields): Promise<void> {
  const body = wireFields(options);
  if (Object.keys(body).length === 0)
    throw usageError('nothing to change: give a field, like --hostname; --help lists them');
  const client = await session.client();
  const { id, organization_id } = await findDevice(session, text);
  const device = await client.devices.update(organization_id, id, body, { signal: session.signal });
  await printChange(session, 'Changed', device);
}

export async function remove(session: Session, text: string): Promise<void> {
  const client = await session.client();
  const found = await findDevice(session, text);
  if (!(await session.confirm(`Delete device ${deviceName(found)}?`))) return session.say('Nothing was changed.');
  const device = await client.devices.delete(found.organization_id, found.id, { signal: session.signal });
  return printChange(session, 'Deleted', device);
}

const printChange = (session: Session, verb: string, device: Device): Promise<void> =>
  session.print({
    data: device,
    ids: [device.id],
    table: `${verb} device ${deviceName(device)} (${device.id}).`,
  });

export type DeviceGroups = 'set' | 'add' | 'remove';

function listAfter(way: DeviceGroups, now: readonly string[], named: readonly string[]): readonly string[] {
  switch (way) {
    case 'set':
      return named;
    case 'add':
      return [...now, ...named.filter((id) => !now.includes(id))];
    case 'remove':
      return now.filter((id) => !named.includes(id));
    default:
      return way satisfies never;
  }
}

export async function changeGroups(
  session: Session,
  way: DeviceGroups,
  text: string,
  names: readonly string[],
): Promise<void> {
  const { signal } = session;
  const client = await session.client();
  const found = await findDevice(session, text);
  const named = names.length === 0 ? [] : await groupIds(session, names);
  const read = (): Promise<Device> => client.devices.get(found.organization_id, found.id, { signal });
  const device = await changeSafely(found, read, async (newest) => {
    const now = newest.security_groups ?? [];
    const after = listAfter(way, now, named);
    if (after.join() === now.join()) return undefined;
    const { organization_id, id, revision } = newest;
    return client.devices.update(organization_id, id, { security_groups: after }, { signal, ifMatch: revision });
  });
  if (device === undefined) session.say('Nothing to change: it is so already.');
  const shown = device ?? found;
  const groups = await groupsForTable(session);
  await session.print({
    data: shown,
    ids: [shown.id],
    table: `Groups of device ${deviceName(shown)}: ${groupNames(shown, groups).join(', ')}.`,
  });
}

export async function status(session: Session): Promise<void> {
  const client = await session.client();
  const organization = await session.organization();
  const [statuses, devices] = await Promise.all([
    client.statuses.list(organization, { signal: session.signal }),
    allDevices(session),
  ]);
  const nameOf = (id: string): string => deviceName(devices.find((device) => device.id === id) ?? { id, hostname: '' });
  await session.print({
    data: statuses,
    ids: statuses.map(({ device_id }) => device_id),
    table: (paint) =>
      renderTable(
        [
          { head: 'DEVICE', text: ({ device_id }) => nameOf(device_id) },
          { head: 'STATE', text: ({ status: { state } }) => state },
          { head: 'REVISION', text: ({ status: { revision } }) => String(revision ?? ''), align: 'right' },
          { head: 'REPORTED', text: ({ reported_at }) => shortTime(reported_at) },
          { head: 'DETAIL', text: ({ status: { detail } }) => detail ?? '' },
        ],
        statuses,
        paint,
      ),
  });
}
