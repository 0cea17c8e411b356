/** Owns the kernel's verdicts: real packets on a real cable, and for each one whether the device's filter let it pass. */
import { fileURLToPath } from 'node:url';
import { createInterface } from 'node:readline';
import { readFileSync } from 'node:fs';
import type { ChildProcess } from 'node:child_process';
import { NetlinkChannel } from '../../src/agent/netlink/channel.ts';
import { systemClock } from '../../src/client/clock.ts';
import type { Packet } from '../../src/policy/packet.ts';
import { runQuickly } from './batch-runner.ts';
import { connect, hardwareAddress, Namespace } from './netns.ts';
import { packetText } from './packet-text.ts';
import { encodeProbe, plainShape, probeMark, type Shape } from './probe-bytes.ts';

export type Verdict = 'accept' | 'drop';

/** The interface that the rules under test apply to. */
export const driver = 'rf0';
export const device4 = 0x6440_0001n; // 100.64.0.1
export const device6 = 0xfd7f_0000_0000_0000_0000_0000_0000_0001n;

/** An address of the device whose connections are all redirected to its container, whatever their port. */
const published4 = 0x6440_004dn; // 100.64.0.77
const published6 = 0xfd7f_0000_0000_0000_0000_0000_0000_004dn;
/** The container: what leaves from the first address is translated, the second is only routed. */
const contained4 = 0x0a58_0002n; // 10.88.0.2
const contained6 = 0xfd88_0000_0000_0000_0000_0000_0000_0002n;
const bridge = 'cni0';

/** Far later than the filter under test, and the packet ends here: no reply disturbs, no connection is ever remembered. */
const afterFilter = 100;
/** Before connection tracking and everything else. */
const beforeAll = -450;
/** Just behind the place where connection tracking puts fragments together, which is at -400, and before every filter. */
const afterReassembly = -390;

/**
 * Notes every probe by its number: when it reaches the device's stack, the second of two fragments apart; when it is whole; and when it is past the filter.
 * So a packet that the filter dropped differs from one that never came, and from one of which a fragment is missing. A set that the kernel just makes larger
 * may refuse a number: then the rule ends there, and the next one counts that it did. Other traffic is left alone, so that real connections can run beside the probes.
 */
const recorder = `
table inet recorder {
  set arrived { typeof ip id; flags dynamic; size 65535; }
  set followed { typeof ip id; flags dynamic; size 65535; }
  set whole { typeof ip id; flags dynamic; size 65535; }
  set passed { typeof ip id; flags dynamic; size 65535; }
  counter unnoted { }
  chain count-unnoted {
    ip dscp ${probeMark} counter name unnoted
    ip6 dscp ${probeMark} counter name unnoted
  }
  chain note-arrived {
    ip dscp ${probeMark} ip frag-off & 0x1fff != 0 add @followed { ip id } return
    ip6 dscp ${probeMark} frag frag-off != 0 add @followed { @nh,16,16 } return
    ip dscp ${probeMark} ip frag-off & 0x1fff == 0 add @arrived { ip id } return
    ip6 dscp ${probeMark} frag frag-off != 0 goto count-unnoted
    ip6 dscp ${probeMark} add @arrived { @nh,16,16 } return
    jump count-unnoted
  }
  chain note-whole {
    ip dscp ${probeMark} add @whole { ip id } return
    ip6 dscp ${probeMark} add @whole { @nh,16,16 } return
    jump count-unnoted
  }
  chain note-passed {
    ip dscp ${probeMark} add @passed { ip id } drop
    ip6 dscp ${probeMark} add @passed { @nh,16,16 } drop
    jump count-unnoted
  }
  chain prerouting { type filter hook prerouting priority ${beforeAll}; iifname "${driver}" jump note-arrived; }
  chain when-whole { type filter hook prerouting priority ${afterReassembly}; iifname "${driver}" jump note-whole; }
  chain input { type filter hook input priority ${afterFilter}; iifname "${driver}" jump note-passed; }
  chain before-output { type filter hook output priority ${beforeAll}; oifname "${driver}" jump note-arrived; }
  chain output-when-whole { type filter hook output priority ${afterReassembly}; oifname "${driver}" jump note-whole; }
  chain output { type filter hook output priority ${afterFilter}; oifname "${driver}" jump note-passed; }
}
`;

/** The same for what the device forwards. The redirection changes ports too, so that only the original ones can be judged. */
const forwardRecorder = `
table inet recorder {
  chain prerouting { iifname "${bridge}" jump note-arrived; }
  chain when-whole { iifname "${bridge}" jump note-whole; }
  chain forward { type filter hook forward priority ${afterFilter}; iifname "${driver}" jump note-passed; }
  chain postrouting { type filter hook postrouting priority 200; oifname "${driver}" iif > 0 jump note-passed; }
}
table ip nat {
  chain prerouting { type nat hook prerouting priority dstnat;
    iifname "${driver}" ip daddr 100.64.0.77 meta l4proto { tcp, udp } dnat to 10.88.0.2:7
    iifname "${driver}" ip daddr 100.64.0.77 dnat to 10.88.0.2
  }
  chain postrouting { type nat hook postrouting priority srcnat; ip saddr 10.88.0.2 oifname "${driver}" masquerade; }
}
table ip6 nat {
  chain prerouting { type nat hook prerouting priority dstnat;
    iifname "${driver}" ip6 daddr fd7f::4d meta l4proto { tcp, udp } dnat to [fd88::2]:7
    iifname "${driver}" ip6 daddr fd7f::4d dnat to fd88::2
  }
  chain postrouting { type nat hook postrouting priority srcnat; ip6 saddr fd88::2 oifname "${driver}" masquerade; }
}
`;

/** The near end of a packet: the device's own address, the one it redirects, or one of its container. */
function nearEnd({ family, forwarded }: Packet): bigint {
  const v4 = family === 4;
  if (forwarded === undefined) return v4 ? device4 : device6;
  if (forwarded === 'redirected') return v4 ? published4 : published6;
  return (v4 ? contained4 : contained6) + (forwarded === 'routed' ? 1n : 0n);
}

/** In the order in which they are listed. */
const notes = ['arrived', 'followed', 'whole', 'passed'] as const;
const forgetAll = notes.map((name) => `flush set inet recorder ${name}\n`).join('');
/** How often probes are sent before it is a fault that some do not come. */
const attempts = 3;
/** Milliseconds for a packet to arrive: a bound, no measure. */
const longest = 60_000;

type Notes = { readonly [Name in (typeof notes)[number]]: ReadonlySet<number> };

export interface ProbeRequest {
  readonly packet: Packet;
  readonly shape?: Shape;
}

/** Writes a packet that no `Packet` describes, which is named by the number: as its DSCP it has `probeMark`, as its identification or flow label the number. */
export type OddPacket = (id: number) => readonly Buffer[];

/** A device and its peer on one cable. Probes come from any address: the stack's own plausibility checks are off. */
export class VerdictLab {
  readonly device: Namespace;
  /** The device's short way to its kernel, as the agent has it. */
  readonly netlink: NetlinkChannel;
  readonly peer: Namespace;
  readonly #fromPeer: RawSender;
  readonly #fromDevice: RawSender;
  /** How many notes a set has refused so far. */
  #unnoted = 0;
  /** Nothing is noted since the last load. */
  #isFresh = false;
  #container: { readonly namespace: Namespace; readonly sender: RawSender } | undefined;

  private constructor(device: Namespace, peer: Namespace) {
    this.device = device;
    this.netlink = new NetlinkChannel({ clock: systemClock, prefix: device.inside([]) });
    this.peer = peer;
    this.#fromPeer = new RawSender(peer, driver);
    this.#fromDevice = new RawSender(device, driver);
  }

  /** From now on the device forwards, and has a container: packets may be redirected, translated or routed. */
  async addContainer(): Promise<void> {
    const namespace = await Namespace.create();
    await this.device.sysctl({ 'net/ipv4/ip_forward': 1, 'net/ipv6/conf/all/forwarding': 1 });
    await connect(
      { namespace: this.device, name: bridge, addresses: ['10.88.0.1/24', 'fd88::1/64'] },
      { namespace, name: bridge, addresses: ['10.88.0.2/24', '10.88.0.3/24', 'fd88::2/64', 'fd88::3/64'] },
    );
    const [own, far] = [await hardwareAddress(this.device, bridge), await hardwareAddress(namespace, bridge)];
    const neighbours = (addresses: readonly string[], hardware: string): string =>
      addresses.map((a) => `neigh replace ${a} lladdr ${hardware} dev ${bridge} nud permanent\n`).join('');
    await namespace.run(
      ['ip', '-batch', '-'],
      `${neighbours(['10.88.0.1', 'fd88::1'], own)}route add default via 10.88.0.1\nroute add default via fd88::1\n`,
    );
    await this.device.run(
      ['ip', '-batch', '-'],
      `${neighbours(['10.88.0.2', '10.88.0.3', 'fd88::2', 'fd88::3'], far)}address add 100.64.0.77/32 dev ${driver}
address add fd7f::4d/128 dev ${driver} nodad\n`,
    );
    const hardware = await hardwareAddress(this.device, driver);
    await this.peer.run(
      ['ip', '-batch', '-'],
      ['100.64.0.77', 'fd7f::4d']
        .map((a) => `neigh replace ${a} lladdr ${hardware} dev ${driver} nud permanent\n`)
        .concat('route add 10.88.0.0/24 via 100.64.0.1\nroute add fd88::/64 via fd7f::1\n')
        .join(''),
    );
    await this.device.run(['nft', '-f', '-'], forwardRecorder);
    this.#container = { namespace, sender: new RawSender(namespace, bridge) };
  }

  static async open(): Promise<VerdictLab> {
    const [device, peer] = await Promise.all([Namespace.create(), Namespace.create()]);
    try {
      await device.sysctl({ 'net/ipv4/conf/all/rp_filter': 0, 'net/ipv4/conf/default/rp_filter': 0 });
      await connect(
        { namespace: device, name: driver, addresses: ['100.64.0.1/24', 'fd7f::1/64'] },
        { namespace: peer, name: driver, addresses: ['100.64.0.2/24', 'fd7f::2/64'] },
      );
      // No hardware address has to be resolved, so that the rules under test cannot keep a packet from being sent.
      const neighbours = async (of: Namespace, other: Namespace, addresses: readonly string[]): Promise<void> => {
        const hardware = await hardwareAddress(other, driver);
        const lines = addresses.map((a) => `neigh replace ${a} lladdr ${hardware} dev ${driver} nud permanent\n`);
        await of.run(['ip', '-batch', '-'], lines.join(''));
      };
      await neighbours(peer, device, ['100.64.0.1', 'fd7f::1']);
      await neighbours(device, peer, ['100.64.0.2', 'fd7f::2']);
      const routes = ['100.64.0.2', 'fd7f::2'].map((gateway) => `route add default via ${gateway} dev ${driver}\n`);
      await device.run(['ip', '-batch', '-'], routes.join(''));
      await device.run(['nft', '-f', '-'], recorder);
      return new VerdictLab(device, peer);
    } catch (error) {
      await Promise.all([device.close(), peer.close()]);
      throw error;
    }
  }

  /** Loads nft text on the device, as one transaction. What is noted of earlier probes goes with it: that spares one of its own. */
  async load(text: string): Promise<void> {
    await runQuickly(this.device, ['nft', '-f', '-'], `${text}\n${forgetAll}`);
    this.#isFresh = true;
  }

  /**
   * Sends every packet and returns, in the same order, which ones the device's filter let pass. A packet that a busy
   * machine lost before the filter, or could not record, says nothing about the filter: then all are sent again. Throws
   * if that does not help.
   */
  async probe(requests: readonly ProbeRequest[]): Promise<Verdict[]> {
    for (let attempt = 1; ; attempt += 1) {
      const { verdicts, faults } = await this.#probeOnce(requests);
      if (faults.length === 0) return verdicts;
      const text = `${faults.length} probes never reached the device's filter: ${faults.slice(0, 5).join('; ')}\n${await this.#kernelCounters()}`;
      if (attempt === attempts) throw new Error(text);
      console.warn(text);
    }
  }

  async #probeOnce(requests: readonly ProbeRequest[]): Promise<{ verdicts: Verdict[]; faults: string[] }> {
    const probes = requests.map(({ packet, shape = plainShape }, i) => ({
      packet,
      shape,
      id: i + 1,
      local: nearEnd(packet),
    }));
    const fence = probes.length + 1;
    if (!this.#isFresh) await runQuickly(this.device, ['nft', '-f', '-'], forgetAll);
    this.#isFresh = false;
    const isContained = ({ packet }: (typeof probes)[number]): boolean =>
      packet.direction === 'outbound' && packet.forwarded !== undefined;
    const sent = (direction: Packet['direction']): Buffer[] =>
      probes.filter((probe) => probe.packet.direction === direction && !isContained(probe)).flatMap(encodeProbe);
    await this.#fromDevice.send(sent('outbound'));
    await this.#container?.sender.send(probes.filter(isContained).flatMap(encodeProbe));
    await this.#fromPeer.send([...sent('inbound'), ...encodeProbe({ ...fencePacket, id: fence })]);
    const noted = await this.#notedUntil(fence);
    const faults = probes.flatMap(({ id, packet, shape }) => {
      const what = missing(noted, id, shape);
      return what === undefined ? [] : [`${what} of ${packetText(packet)} ${JSON.stringify(shape)}`];
    });
    const unnoted = await this.#unnotedSince();
    if (unnoted > 0) faults.push(`${unnoted} notes, which a set refused`);
    return { verdicts: probes.map(({ id }) => (noted.passed.has(id) ? 'accept' : 'drop')), faults };
  }

  /** Sends the packets from the peer and returns which ones came in: past the stack's own checks and the filter. */
  async probeOdd(packets: readonly OddPacket[]): Promise<Verdict[]> {
    const fence = packets.length + 1;
    await runQuickly(this.device, ['nft', '-f', '-'], forgetAll);
    const bytes = packets.flatMap((packet, i) => packet(i + 1));
    await this.#fromPeer.send([...bytes, ...encodeProbe({ ...fencePacket, id: fence })]);
    const { passed } = await this.#notedUntil(fence);
    return packets.map((_, i) => (passed.has(i + 1) ? 'accept' : 'drop'));
  }

  /** How many notes were refused since it was last asked. */
  async #unnotedSince(): Promise<number> {
    const { stdout } = await runQuickly(this.device, ['nft', '-j', 'list', 'counters', 'table', 'inet', 'recorder']);
    const listing = JSON.parse(stdout) as { nftables: { counter?: { packets: number } }[] };
    const packets = listing.nftables.find(({ counter }) => counter !== undefined)?.counter?.packets;
    if (packets === undefined) throw new Error(`no counter: ${stdout}`);
    const since = packets - this.#unnoted;
    this.#unnoted = packets;
    return since;
  }

  /** What the kernel counted of its own drops: on the way to the stack, and while it puts fragments together. */
  async #kernelCounters(): Promise<string> {
    const files = 'cat /proc/net/softnet_stat; grep -E "Reasm|InDiscards" /proc/net/snmp6; grep ^Ip: /proc/net/snmp';
    return (await this.device.run(['sh', '-c', files])).stdout;
  }

  /**
   * The sender stays on one processor, where packets are handled in order: once the fence is noted, all before it are done. What
   * arrived is listed first, so a listing with the fence among it holds all that came of it.
   */
  async #notedUntil(fence: number): Promise<Notes> {
    const until = Date.now() + longest;
    for (;;) {
      const noted = await this.#noted();
      // A set that is made larger or smaller meanwhile may leave out a number of its list: nothing leaves it, so both lists together are right.
      if (noted.arrived.has(fence)) return joined(noted, await this.#noted());
      if (Date.now() > until) throw new Error('the fence packet never reached the device');
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  async #noted(): Promise<Notes> {
    const { stdout } = await runQuickly(this.device, ['nft', '-j', 'list', 'sets', 'table', 'inet', 'recorder']);
    const listing = JSON.parse(stdout) as { nftables: { set?: { table: string; name: string; elem?: number[] } }[] };
    // Some versions of nft list the sets of all tables.
    const sets = listing.nftables.flatMap(({ set }) => (set?.table === 'recorder' ? [set] : []));
    if (sets.map(({ name }) => name).join() !== notes.join()) throw new Error(`not in this order: ${stdout}`);
    return notesOf((name) => new Set(sets.find((set) => set.name === name)?.elem));
  }

  async close(): Promise<void> {
    await this.netlink.close();
    await Promise.all([this.device.close(), this.peer.close(), this.#container?.namespace.close()]);
  }
}

const notesOf = (of: (name: keyof Notes) => ReadonlySet<number>): Notes => ({
  arrived: of('arrived'),
  followed: of('followed'),
  whole: of('whole'),
  passed: of('passed'),
});

const joined = (one: Notes, other: Notes): Notes => notesOf((name) => new Set([...one[name], ...other[name]]));

/** What of a probe the filter has not seen, though it was sent. */
function missing({ arrived, followed, whole }: Notes, id: number, { fragmented }: Shape): string | undefined {
  if (!arrived.has(id)) return fragmented === true ? 'the first fragment' : 'all';
  if (fragmented === true && !followed.has(id)) return 'the second fragment';
  return whole.has(id) ? undefined : 'what the kernel should have put together';
}

const fencePacket = {
  packet: { direction: 'inbound', family: 4, remote: 0x6440_0002n, transport: { kind: 'udp', dport: 9 } },
  local: device4,
  shape: plainShape,
} as const;

/** A process inside a namespace that owns raw sockets, because Node has none. */
class RawSender {
  readonly #child: ChildProcess;
  readonly #answers: AsyncIterator<string>;
  #said = '';

  constructor(namespace: Namespace, interfaceName: string) {
    const script = fileURLToPath(new URL('raw-sender.mjs', import.meta.url));
    const argv = ['taskset', '--cpu-list', firstProcessor(), process.execPath, script, interfaceName];
    this.#child = namespace.spawn(argv, { stdio: ['pipe', 'pipe', 'pipe'] });
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => (this.#said += text));
    this.#child.stdin?.on('error', () => {}); // Told by the missing answer.
    if (this.#child.stdout === null) throw new Error('the raw sender has no output');
    this.#answers = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  async send(packets: readonly Buffer[]): Promise<void> {
    if (packets.length === 0) return;
    this.#child.stdin?.write(`${packets.map((packet) => packet.toString('hex')).join(' ')}\n`);
    const { value, done } = await this.#answers.next();
    if (done === true || value !== `sent ${packets.length}`)
      throw new Error(`the raw sender failed: ${done === true ? this.#said : value}`);
  }
}

/** The first processor that this process may run on. */
function firstProcessor(): string {
  const allowed = /^Cpus_allowed_list:\s*(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'));
  return allowed?.[1] ?? '0';
}
