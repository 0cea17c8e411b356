/** Owns the lab's networks: which device has which address, and the cables between devices, hub and server. */
import { bringUp, untilReady, type Namespace } from './namespace.ts';

/** The driver interface of every device. */
export const driverName = 'rf0';
/** The interface over which a device reaches the server; no policy ever applies to it. */
const uplinkName = 'up0';
/** Where the server is, seen from a device. */
export const relayAddress = { address: '172.31.255.1', port: 8080 } as const;

export const mostDevices = 200;

export interface Addresses {
  readonly driver4: string;
  readonly driver6: string;
  readonly uplink: string;
}

/** The addresses of the device with this number, from 1 on. */
export const addressesOf = (number: number): Addresses => ({
  driver4: `100.64.0.${number}`,
  driver6: `fd7f::${number.toString(16)}`,
  uplink: `172.31.255.${number + 10}`,
});

/** The hub: one switch for the drivers, one for the uplinks. */
export async function buildHub(hub: Namespace): Promise<void> {
  const lines = [
    'link add drivers type bridge mcast_snooping 0',
    'link add uplinks type bridge mcast_snooping 0',
    `address add ${relayAddress.address}/24 dev uplinks`,
    'link set drivers up',
    'link set uplinks up',
    '',
  ];
  await hub.run(['ip', '-batch', '-'], lines.join('\n'));
}

export interface DeviceLink {
  readonly hub: Namespace;
  readonly device: Namespace;
  readonly number: number;
}

/** A cable from the device into one of the hub's switches. */
async function plug(
  { hub, device, number }: DeviceLink,
  to: 'drivers' | 'uplinks',
  name: string,
  addresses: readonly string[],
): Promise<void> {
  const far = `${to[0] ?? ''}${number}`;
  const lines = [
    `link add ${far} type veth peer name ${name} netns ${device.pid}`,
    `link set ${far} master ${to} up`,
    '',
  ];
  await hub.run(['ip', '-batch', '-'], lines.join('\n'));
  await bringUp({ namespace: device, name, addresses });
  await untilReady({ namespace: device, name, addresses });
}

export const connectUplink = (link: DeviceLink): Promise<void> =>
  plug(link, 'uplinks', uplinkName, [`${addressesOf(link.number).uplink}/24`]);

export function connectDriver(link: DeviceLink): Promise<void> {
  const { driver4, driver6 } = addressesOf(link.number);
  return plug(link, 'drivers', driverName, [`${driver4}/24`, `${driver6}/64`]);
}

/** What carries a tunnel's packets, where the driver is a tunnel. */
export const underlayOf = (number: number): string => `172.30.255.${number + 10}`;
export const connectUnderlay = (link: DeviceLink): Promise<void> =>
  plug(link, 'drivers', 'under0', [`${underlayOf(link.number)}/24`]);
