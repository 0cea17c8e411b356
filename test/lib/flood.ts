/** Owns a steady stream of packets, permitted and forbidden, in both directions, and the exact count of what became of them. */
import type { ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { connect, hardwareAddress, Namespace } from './netns.ts';

export const floodInterface = 'rf0';
/** What the policies under test must always admit and never admit, in both directions. */
export const permittedPort = 4_000;
export const forbiddenPort = 5_000;
export const peer4 = '100.64.0.2';
export const peer6 = 'fd7f::2';
const device4 = '100.64.0.1';
const device6 = 'fd7f::1';

const counters = ['permitted', 'forbidden'].flatMap((kind) =>
  ['in', 'out'].flatMap((direction) => ['came', 'passed'].map((place) => `${kind}-${direction}-${place}`)),
);
const count = (direction: 'in' | 'out', place: 'came' | 'passed'): string =>
  `udp dport ${permittedPort} counter name permitted-${direction}-${place}
   udp dport ${forbiddenPort} counter name forbidden-${direction}-${place}`;

/** Counts before everything and after the filter. What passed ends there: no answer, no connection is remembered. */
const recorder = `
table inet recorder {
  ${counters.map((name) => `counter ${name} { packets 0 bytes 0; }`).join('\n')}
  chain came-in { type filter hook prerouting priority -450; iifname "${floodInterface}" jump note-in; }
  chain passed-in { type filter hook input priority 100; iifname "${floodInterface}" jump took-in; }
  chain came-out { type filter hook output priority -450; oifname "${floodInterface}" jump note-out; }
  chain passed-out { type filter hook output priority 100; oifname "${floodInterface}" jump took-out; }
  chain note-in { ${count('in', 'came')}; }
  chain took-in { ${count('in', 'passed')}
    udp dport { ${permittedPort}, ${forbiddenPort} } drop; }
  chain note-out { ${count('out', 'came')}; }
  chain took-out { ${count('out', 'passed')}
    udp dport { ${permittedPort}, ${forbiddenPort} } drop; }
}
`;

export interface Tally {
  /** Permitted packets that came, by direction. */
  readonly permitted: { readonly in: number; readonly out: number };
  readonly forbidden: { readonly in: number; readonly out: number };
  /** Permitted packets that the filter dropped. */
  readonly lost: number;
  /** Forbidden packets that it let pass. */
  readonly leaked: number;
}

export class FloodLab {
  readonly device: Namespace;
  readonly #peer: Namespace;
  #senders: ChildProcess[] = [];

  private constructor(device: Namespace, peer: Namespace) {
    this.device = device;
    this.#peer = peer;
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
    this.#senders = [this.#send(this.#peer, [device4, device6]), this.#send(this.device, [peer4, peer6])];
    for (let attempt = 0; ; attempt++) {
      const { permitted, forbidden } = await this.#tally();
      if (Math.min(permitted.in, permitted.out, forbidden.in, forbidden.out) > 0) return;
      if (attempt === 500) throw new Error('the flood never came');
      await pause(10);
    }
  }

  /** Ends the stream and tells what became of it, once the last packet has been handled. */
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

  async close(): Promise<void> {
    await Promise.all([this.device.close(), this.#peer.close()]);
  }

  #send(from: Namespace, to: readonly string[]): ChildProcess {
    const script = fileURLToPath(new URL('flood-sender.mjs', import.meta.url));
    const destinations = to.flatMap((address) => [`${address},${permittedPort}`, `${address},${forbiddenPort}`]);
    return from.spawn(['nice', '-n', '10', process.execPath, script, ...destinations], {
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
    return {
      permitted: { in: of('permitted-in-came'), out: of('permitted-out-came') },
      forbidden: { in: of('forbidden-in-came'), out: of('forbidden-out-came') },
      lost: of('permitted-in-came') - of('permitted-in-passed') + of('permitted-out-came') - of('permitted-out-passed'),
      leaked: of('forbidden-in-passed') + of('forbidden-out-passed'),
    };
  }
}

/** Nobody has to ask for a hardware address. */
async function neighbours(namespace: Namespace, addresses: readonly string[], hardware: string): Promise<void> {
  const lines = addresses.map((a) => `neigh replace ${a} lladdr ${hardware} dev ${floodInterface} nud permanent\n`);
  await namespace.run(['ip', '-batch', '-'], lines.join(''));
}

const pause = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));
