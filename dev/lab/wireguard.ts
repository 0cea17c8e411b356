/** Owns driver interfaces that are tunnels: userspace WireGuard between every pair of devices. */
import { rm, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Namespace } from './namespace.ts';
import { addressesOf, driverName, underlayOf } from './topology.ts';

const port = 51_820;

export interface TunnelKey {
  readonly secret: string;
  readonly publicKey: string;
}

export async function makeKey(device: Namespace): Promise<TunnelKey> {
  const secret = (await device.run(['wg', 'genkey'])).stdout.trim();
  return { secret, publicKey: (await device.run(['wg', 'pubkey'], `${secret}\n`)).stdout.trim() };
}

export interface TunnelOptions {
  readonly device: Namespace;
  readonly number: number;
  /** Of all devices, in the order of their numbers. */
  readonly keys: readonly TunnelKey[];
  /** Where its configuration may lie for a moment. */
  readonly file: string;
}

/** Starts the tunnel of one device. */
export async function openTunnel({ device, number, keys, file }: TunnelOptions): Promise<void> {
  device.spawn(['wireguard-go', '--foreground', driverName], {
    stdio: 'ignore',
    env: { LOG_LEVEL: 'error', WG_I_PREFER_BUGGY_USERSPACE_TO_POLISHED_KMOD: '1' },
  });
  await waitForInterface(device);
  const own = keys[number - 1];
  const peers = keys.flatMap(({ publicKey }, index) => {
    if (index + 1 === number) return [];
    const { driver4, driver6 } = addressesOf(index + 1);
    return [
      `[Peer]\nPublicKey = ${publicKey}\nAllowedIPs = ${driver4}/32, ${driver6}/128\nEndpoint = ${underlayOf(index + 1)}:${port}`,
    ];
  });
  const config = `[Interface]\nPrivateKey = ${own?.secret ?? ''}\nListenPort = ${port}\n${peers.join('\n')}\n`;
  await writeFile(file, config, { mode: 0o600 });
  await device.run(['wg', 'setconf', driverName, file]);
  await rm(file);
  const { driver4, driver6 } = addressesOf(number);
  const lines = [
    `address add ${driver4}/24 dev ${driverName}`,
    `address add ${driver6}/64 dev ${driverName} nodad`,
    `link set ${driverName} up`,
    '',
  ];
  await device.run(['ip', '-batch', '-'], lines.join('\n'));
}

async function waitForInterface(device: Namespace): Promise<void> {
  for (let attempt = 0; attempt < 500; attempt++) {
    if ((await device.attempt(['wg', 'show', driverName])).code === 0) return;
    await sleep(20);
  }
  throw new Error(`wireguard-go made no interface ${driverName}`);
}
