/** Owns the packets of a package test: a neighbour inside the machine that never stops sending, and the kernel's own count of them. */
import { readFileSync } from 'node:fs';
import type { Machine } from './machine.ts';

export const permittedPort = 5000;
export const forbiddenPort = 5001;

/** What came to the driver interface, and what of it passed the filter. */
export interface Counts {
  readonly permitted: { readonly came: number; readonly passed: number };
  readonly forbidden: { readonly came: number; readonly passed: number };
}

/** The driver interface and its neighbour, made by a unit at every boot: the network. It writes down what was in force by then. */
const unit = `[Unit]
Description=The driver interface of a test
After=network-pre.target
Wants=network-pre.target
Before=network.target
DefaultDependencies=no
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh /opt/test/network.sh
[Install]
WantedBy=multi-user.target
`;

const script = `set -e
nft list ruleset >/run/in-force-before-the-network
ip netns add neighbour
ip link add wg0 type veth peer name eth0 netns neighbour
ip address add 10.9.0.1/24 dev wg0
ip link set wg0 up
ip -n neighbour address add 10.9.0.2/24 dev eth0
ip -n neighbour link set eth0 up
ip -n neighbour link set lo up
nft -f - <<'END'
table inet observer {
  counter permitted-came { packets 0 bytes 0 }
  counter permitted-passed { packets 0 bytes 0 }
  counter forbidden-came { packets 0 bytes 0 }
  counter forbidden-passed { packets 0 bytes 0 }
  chain before {
    type filter hook input priority -100
    iifname "wg0" udp dport ${permittedPort} counter name "permitted-came"
    iifname "wg0" udp dport ${forbiddenPort} counter name "forbidden-came"
  }
  chain after {
    type filter hook input priority 100
    iifname "wg0" udp dport ${permittedPort} counter name "permitted-passed"
    iifname "wg0" udp dport ${forbiddenPort} counter name "forbidden-passed"
  }
}
END
`;

/** Sets the network up, now and for every boot. */
export async function installNetwork(machine: Machine): Promise<void> {
  await machine.write('/opt/test/network.sh', script);
  await machine.write('/opt/test/sender.mjs', readFileSync(new URL('sender.mjs', import.meta.url), 'utf8'));
  await machine.write('/etc/systemd/system/test-network.service', unit);
  // A copy: the sender must not hang on the packages that are being tested.
  await machine.ok(
    'cp /usr/lib/ringfence/node /opt/test/node && systemctl daemon-reload && systemctl enable --now test-network',
  );
}

/** The neighbour sends from now on, also while packages come and go. */
export async function startSending(machine: Machine): Promise<void> {
  const to = [permittedPort, forbiddenPort].map((port) => `10.9.0.1,${port}`).join(' ');
  await machine.ok(
    `systemd-run --quiet --unit=test-sender ip netns exec neighbour /opt/test/node /opt/test/sender.mjs ${to}`,
  );
  await machine.until(`[ "$(${packetsOf('forbidden-came')})" -gt 0 ]`);
}

export const stopSending = (machine: Machine): Promise<string> => machine.ok('systemctl stop test-sender; sleep 0.2');

const packetsOf = (name: string): string =>
  `nft list counter inet observer ${name} | sed -n 's/.*packets \\([0-9]*\\).*/\\1/p'`;

export async function countPackets(machine: Machine): Promise<Counts> {
  const read = async (name: string): Promise<number> => Number(await machine.ok(packetsOf(name)));
  return {
    permitted: { came: await read('permitted-came'), passed: await read('permitted-passed') },
    forbidden: { came: await read('forbidden-came'), passed: await read('forbidden-passed') },
  };
}
