/** Owns a steady stream of packets, permitted and forbidden, in both directions, and the exact count of what became of them. */
import type { ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { eventually } from './eventually.ts';
import { connect, hardwareAddress, Namespace } from './netns.ts';

export const floodInterface = 'rf0';
/** What the policies under test must always admit and never admit, in both directions. */
export const permittedPort = 4_000;
export const forbiddenPort = 5_000;
export const peer4 = '100.64.0.2';
export const peer6 = 'fd7f::2';
const device4 = '100.64.0.1';
const device6 = 'fd7f::1';

/** Of the device itself, and of its container: what is redirected there, and what leaves from there translated. */
const ways = ['in', 'out', 'redirected', 'translated'] as const;
type Way = (typeof ways)[number];

/** An address of the device whose connections are redirected to its container, one port further on. */
const published4 = '100.64.0.77';
const published6 = 'fd7f::4d';
const container4 = '10.88.0.2';
const container6 = 'fd88::2';
const bridge = 'cni0';

const counters = ['permitted', 'forbidden'].flatMap((kind) =>
  ways.flatMap((way) => ['came', 'passed'].map((place) => `${kind}-${way}-${place}`)),
);
const count = (way: Way, place: 'came' | 'passed', further = 0): string =>
  `udp dport ${permittedPort + further} counter name permitted-${way}-${place}
   udp dport ${forbiddenPort + further} counter name forbidden-${way}-${place}`;
const ends = (further = 0): string => `udp dport { ${permittedPort + further}, ${forbiddenPort + further} } drop`;

/** Counts before everything and after the filter. What passed ends there: no answer, no connection is remembered. */
const recorder = `
table inet recorder {
  ${counters.map((name) => `counter ${name} { packets 0 bytes 0; }`).join('\n')}
  chain note-in { ${count('in', 'came')}; }
  chain note-redirected { ${count('redirected', 'came')}; }
  chain note-translated { ${count('translated', 'came')}; }
  chain took-in { ${count('in', 'passed')}
    ${ends()}; }
  chain took-redirected { ${count('redirected', 'passed', 1)}
    ${ends(1)}; }
  chain took-translated { ${count('translated', 'passed')}
    ${ends()}; }
  chain note-out { ${count('out', 'came')}; }
  chain took-out { ${count('out', 'passed')}
    ${ends()}; }
  chain came-in { type filter hook prerouting priority -450;
    iifname "${floodInterface}" ip daddr ${published4} goto note-redirected
    iifname "${floodInterface}" ip6 daddr ${published6} goto note-redirected
    iifname "${floodInterface}" jump note-in
    iifname "${bridge}" jump note-translated; }
  chain passed-in { type filter hook input priority 100; iifname "${floodInterface}" jump took-in; }
  chain passed-redirected { type filter hook forward priority 100; iifname "${floodInterface}" jump took-redirected; }
  chain passed-translated { type filter hook postrouting priority 200; oifname "${floodInterface}" iif > 0 jump took-translated; }
  chain came-out { type filter hook output priority -450; oifname "${floodInterface}" jump note-out; }
  chain passed-out { type filter hook output priority 100; oifname "${floodInterface}" jump took-out; }
}
`;

const translation = (
  [
    ['ip', published4, container4, container4],
    ['ip6', published6, container6, `[${container6}]`],
  ] as const
)
  .map(
    ([family, published, container, bracketed]) => `table ${family} nat {
  chain prerouting { type nat hook prerouting priority dstnat;
    ${[permittedPort, forbiddenPort].map((port) => `${family} daddr ${published} udp dport ${port} dnat to ${bracketed}:${port + 1}`).join('\n    ')}
  }
  chain postrouting { type nat hook postrouting priority srcnat; ${family} saddr ${container} oifname "${floodInterface}" masquerade; }
}
`,
  )
  .join('');

type Counts = Readonly<Record<Way, number>>;

export interface Tally {
  /** Permitted packets that came, by their way. */
  readonly permitted: Counts;
  readonly forbidden: Counts;
  /** Permitted packets that the filter dropped. */
  readonly lost: number;
  /** Forbidden packets that it let pass. */
  readonly leaked: number;
}

export class FloodLab {
  readonly device: Namespace;
  readonly #peer: Namespace;
  #container: Namespace | undefined;
  #senders: ChildProcess[] = [];

  private constructor(device: Namespace, peer: Namespace) {
    this.device = device;
    this.#peer = peer;
  }

  /** From now on the device has a container, and packets are forwarded to and from it. */
  async addContainer(): Promise<void> {
    const container = await Namespace.create();
    this.#container = container;
    await this.device.sysctl({ 'net/ipv4/ip_forward': 1, 'net/ipv6/conf/all/forwarding': 1 });
    await connect(
      { namespace: this.device, name: bridge, addresses: ['10.88.0.1/24', 'fd88::1/64'] },
      { namespace: container, name: bridge, addresses: [`${container4}/24`, `${container6}/64`] },
    );
    await neighbours(container, ['10.88.0.1', 'fd88::1'], await hardwareAddress(this.device, bridge), bridge);
    await neighbours(this.device, [container4, container6], await hardwareAddress(container, bridge), bridge);
    await container.run(['ip', '-batch', '-'], 'route add default via 10.88.0.1\nroute add default via fd88::1\n');
    await this.device.run(
      ['ip', '-batch', '-'],
      `address add ${published4}/32 dev ${floodInterface}\naddress add ${published6}/128 dev ${floodInterface} nodad\n`,
    );
    await neighbours(this.#peer, [published4, published6], await hardwareAddress(this.device, floodInterface));
    await this.device.run(['nft', '-f', '-'], translation);
  }

  static async open(): Promise<FloodLab> {
    const [device, peer] = await Promise.all([Namespace.create(), Namespace.create()]);
    try {
      await connect(
        { namespace: device, name: floodInterface, addresses: [`${device4}/24`, `${device6}/64`] },
        { namespace: peer, name: floodInterface, addresses: [`${peer4}/24`, `${peer6}/64`] },
      );
      await neighbours(device, [peer4, peer6], await hardwareAddress(peer, floodInterface));
      await neighbours(peer, [device4, device6], await hardwareAddress(device, floodInterface));
      await device.run(['nft', '-f', '-'], recorder);
      return new FloodLab(device, peer);
    } catch (error) {
      await Promise.all([device.close(), peer.close()]);
      throw error;
    }
  }

  /** Starts sending, and waits until packets of every kind come. */
  async start(): Promise<void> {
    await this.device.run(['nft', 'reset', 'counters', 'table', 'inet', 'recorder']);
    const container = this.#container;
    const published = container === undefined ? [] : [published4, published6];
    this.#senders = [
      this.#send(this.#peer, [device4, device6, ...published]),
      this.#send(this.device, [peer4, peer6]),
      ...(container === undefined ? [] : [this.#send(container, [peer4, peer6])]),
    ];
    await eventually('packets of every kind come', async () => this.fewest(await this.#tally()) > 0);
  }

  /** Ends the stream and returns its tally, once the last packet has been handled. */
  async stop(): Promise<Tally> {
    await Promise.all(
      this.#senders.map(async (sender) => {
        const ended = new Promise((resolve) => sender.once('close', resolve));
        sender.stdin?.end();
        await ended;
      }),
    );
    for (let before = ''; ;) {
      const tally = await this.#tally();
      const now = JSON.stringify(tally);
      if (now === before) return tally;
      before = now;
      await pause(50);
    }
  }

  /** The packets of the rarest kind that came. */
  fewest({ permitted, forbidden }: Tally): number {
    const used = ways.filter((way) => this.#container !== undefined || way === 'in' || way === 'out');
    return Math.min(...used.flatMap((way) => [permitted[way], forbidden[way]]));
  }

  async close(): Promise<void> {
    await Promise.all([this.device.close(), this.#peer.close(), this.#container?.close()]);
  }

  #send(from: Namespace, to: readonly string[]): ChildProcess {
    const script = fileURLToPath(new URL('flood-sender.mjs', import.meta.url));
    const destinations = to.flatMap((address) => [`${address},${permittedPort}`, `${address},${forbiddenPort}`]);
    return from.spawn([process.execPath, script, ...destinations], {
      stdio: ['pipe', 'ignore', 'inherit'],
    });
  }

  async #tally(): Promise<Tally> {
    const { stdout } = await this.device.run(['nft', '-j', 'list', 'counters', 'table', 'inet', 'recorder']);
    const listing = JSON.parse(stdout) as { nftables: { counter?: { name: string; packets: number } }[] };
    const packets = new Map(
      listing.nftables.flatMap(({ counter }) => (counter ? [[counter.name, counter.packets]] : [])),
    );
    const of = (name: string): number => packets.get(name) ?? 0;
    const counts = (kind: string, place: string): Counts => ({
      in: of(`${kind}-in-${place}`),
      out: of(`${kind}-out-${place}`),
      redirected: of(`${kind}-redirected-${place}`),
      translated: of(`${kind}-translated-${place}`),
    });
    const sum = (all: Counts): number => ways.reduce((total, way) => total + all[way], 0);
    const permitted = counts('permitted', 'came');
    return {
      permitted,
      forbidden: counts('forbidden', 'came'),
      lost: sum(permitted) - sum(counts('permitted', 'passed')),
      leaked: sum(counts('forbidden', 'passed')),
    };
  }
}

/** Sets permanent neighbour entries, so that no hardware address has to be resolved. */
async function neighbours(
  namespace: Namespace,
  addresses: readonly string[],
  hardware: string,
  link = floodInterface,
): Promise<void> {
  const lines = addresses.map((a) => `neigh replace ${a} lladdr ${hardware} dev ${link} nud permanent\n`);
  await namespace.run(['ip', '-batch', '-'], lines.join(''));
}

const pause = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));
