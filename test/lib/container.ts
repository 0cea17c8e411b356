/** Owns a container on a device: a namespace behind a bridge of its own, and the address translation that container engines write. */
import { connect, Namespace } from './netns.ts';

export const container4 = '10.88.0.2';
export const container6 = 'fd88::2';
const gateway4 = '10.88.0.1';
const gateway6 = 'fd88::1';
const bridge = 'cni-podman0';

/** A port of the device, and the container's port behind it. */
export type Published = readonly [device: number, container: number];

/** In both families what the rules of Docker and Podman come down to: published ports, and a way out by masquerading. */
const translation = (published: readonly Published[]): string =>
  (
    [
      ['ip', `${gateway4}/24`, container4],
      ['ip6', `${gateway6}/64`, `[${container6}]`],
    ] as const
  )
    .map(
      ([family, network, container]) => `table ${family} nat {
  chain PREROUTING { type nat hook prerouting priority dstnat;
    fib daddr type local jump DNAT
  }
  chain DNAT {
    ${published.flatMap(([port, inner]) => ['tcp', 'udp'].map((protocol) => `iifname != "${bridge}" ${protocol} dport ${port} dnat to ${container}:${inner}`)).join('\n    ')}
  }
  chain POSTROUTING { type nat hook postrouting priority srcnat;
    ${family} saddr ${network} oifname != "${bridge}" masquerade
  }
}
`,
    )
    .join('');

/** A container on the device. Its way out is masqueraded, and these ports of it are published. */
export async function openContainer(device: Namespace, ...published: readonly Published[]): Promise<Namespace> {
  const container = await Namespace.create();
  await connect(
    { namespace: device, name: bridge, addresses: [`${gateway4}/24`, `${gateway6}/64`] },
    { namespace: container, name: 'eth0', addresses: [`${container4}/24`, `${container6}/64`] },
  );
  const routes = [gateway4, gateway6].map((gateway) => `route add default via ${gateway} dev eth0\n`);
  await container.run(['ip', '-batch', '-'], routes.join(''));
  await device.run(['nft', '-f', '-'], translation(published));
  return container;
}

export const forward = (device: Namespace, on: boolean): Promise<void> =>
  device.sysctl({ 'net/ipv4/ip_forward': Number(on), 'net/ipv6/conf/all/forwarding': Number(on) });
