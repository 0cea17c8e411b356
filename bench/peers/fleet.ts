/**
 * Owns the measure of a label change on its way to many kernels: from the API's answer to the last of them. Each device is a namespace with its own
 * nft and netlink session, and a source and an enforcer as the agent's; these run in this one process, because as many processes are more than a small machine has room for.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Enforcer } from '../../src/agent/kernel/enforcer.ts';
import { RealNft } from '../../src/agent/kernel/real-nft.ts';
import type { DesiredPolicy } from '../../src/agent/loop/desired-policy.ts';
import { desiredFrom } from '../../src/agent/loop/follow-source.ts';
import { NetlinkChannel } from '../../src/agent/netlink/channel.ts';
import { InformerSource } from '../../src/agent/source/informer-policy-source.ts';
import { Lab } from '../../src/cli/lab/lab.ts';
import { systemClock } from '../../src/client/clock.ts';
import { Client } from '../../src/client/http.ts';
import { parseInterfaceName } from '../../src/nft/names.ts';
import { parseDeviceId } from '../../src/policy/ids.ts';
import { createNodeFetch } from '../../src/node/fetch.ts';
import { Namespace } from '../../test/lib/netns.ts';
import { at, median, type Goal } from '../lib/goals.ts';
import { figure, table } from '../lib/table.ts';

const kernels = Number(process.env['RINGFENCE_BENCH_KERNELS'] ?? 100);
const rounds = Number(process.env['RINGFENCE_BENCH_ROUNDS'] ?? 200);
/** Between two changes, so that all are at rest again. */
const pause = 50;
const patience = 60_000;
const warmUp = 5;

/** One device: what the server says of it goes into the kernel of its namespace. */
class Follower {
  readonly #namespace: Namespace;
  readonly #channel: NetlinkChannel;
  readonly #nft: RealNft;
  readonly #enforcer: Enforcer;
  readonly #source: InformerSource;
  readonly #end = new AbortController();
  readonly #running: Promise<void>;
  #desired: DesiredPolicy | undefined;
  #working: Promise<void> | undefined;
  #again = false;
  /** The revision that the kernel reflects, and since when. */
  revision = 0;
  since = 0;
  fault: unknown;

  constructor(namespace: Namespace, folder: string, place: { client: Client; organization: string; device: string }) {
    this.#namespace = namespace;
    this.#channel = new NetlinkChannel({ clock: systemClock, prefix: namespace.inside([]) });
    this.#nft = new RealNft({
      clock: systemClock,
      scratch: folder,
      prefix: namespace.inside([]),
      netlink: this.#channel,
    });
    this.#enforcer = new Enforcer({ nft: this.#nft, random: Math.random });
    const { client, organization, device } = place;
    const onFault = (fault: unknown): void => void (this.fault = fault);
    this.#source = new InformerSource({ client, organization, device: parseDeviceId(device), onFault });
    this.#source.onChange(() => {
      this.#again = true;
      this.#working ??= this.#work().finally(() => (this.#working = undefined));
    });
    this.#running = this.#source.run({ signal: this.#end.signal });
  }

  async #work(): Promise<void> {
    try {
      while (this.#again) {
        this.#again = false;
        const knowledge = this.#source.read();
        if (knowledge.kind !== 'known') continue;
        const before = this.#desired?.canonical;
        this.#desired = desiredFrom(knowledge, this.#desired);
        const { canonical: policy, named, membership } = this.#desired;
        const target = { policy, named, membership, interface: parseInterfaceName('rf0'), neighbourDiscovery: false };
        if (policy !== before) await this.#enforcer.apply(target);
        this.revision = knowledge.revision;
        this.since = performance.now();
      }
    } catch (error) {
      this.fault = error;
    }
  }

  /** Whether the kernel holds what was put in force. */
  async verify(): Promise<void> {
    const { findings } = await this.#enforcer.verify();
    if (findings.length > 0) throw new Error(`a kernel holds something else: ${JSON.stringify(findings)}`);
  }

  async close(): Promise<void> {
    this.#end.abort();
    await this.#running.catch(() => {});
    await this.#working;
    await Promise.all([this.#nft.close(), this.#channel.close()]);
    await this.#namespace.close();
  }
}

async function reach(followers: readonly Follower[], revision: number): Promise<void> {
  const until = performance.now() + patience;
  while (followers.some((each) => each.revision < revision)) {
    const failed = followers.find(({ fault }) => fault !== undefined);
    if (failed !== undefined) throw failed.fault;
    if (performance.now() > until) throw new Error('a kernel never had the change');
    await sleep(1);
  }
}

const addressOf = (i: number): string => `100.64.${Math.floor(i / 250)}.${1 + (i % 250)}`;

export async function measureFleet(program: string): Promise<readonly Goal[]> {
  const lab = await Lab.open({
    devices: 0,
    bare: true,
    tunnel: 'veth',
    program: [process.execPath, program],
    serverArguments: ['--rate-limit', '0', '--log-level', 'error'],
  });
  const folder = await mkdtemp(join(tmpdir(), 'ringfence-bench-fleet-'));
  const followers: Follower[] = [];
  try {
    const client = lab.client(lab.adminToken);
    const { id: organization } = await client.organizations.create({ name: 'bench' });
    const group = await client.groups.create(organization, {
      group_name: 'db',
      inbound_rules: [{ ip_protocol: 'tcp', from_port: 5_432, to_port: 5_432, peers: [{ labels: ['app'] }] }],
    });
    const mover = await client.devices.create(organization, {
      public_key: 'mover',
      hostname: 'app-1',
      tunnel_ip: '100.65.0.1',
    });
    for (let i = 0; i < kernels; i += 1) {
      const device = await client.devices.create(organization, {
        public_key: `key ${i}`,
        hostname: `db-${i}`,
        tunnel_ip: addressOf(i),
        security_groups: [group.id],
      });
      // A client of its own, with connections of its own, as on a machine of its own.
      const own = new Client({ url: lab.url, token: device.device_token, fetch: createNodeFetch({}) });
      followers.push(new Follower(await Namespace.create(), folder, { client: own, organization, device: device.id }));
    }
    const [first, last, whole]: [number[], number[], number[]] = [[], [], []];
    for (let round = 0; round < rounds + warmUp; round += 1) {
      const labels = round % 2 === 0 ? ['app'] : [];
      const from = performance.now();
      const { revision } = await client.devices.update(organization, mover.id, { labels });
      const answered = performance.now();
      await reach(followers, revision);
      const times = followers.map(({ since }) => since).toSorted((a, b) => a - b);
      if (round >= warmUp) {
        first.push((times[0] ?? Number.NaN) - answered);
        last.push((times.at(-1) ?? Number.NaN) - answered);
        whole.push((times.at(-1) ?? Number.NaN) - from);
      }
      await sleep(pause);
    }
    for (const follower of followers) await follower.verify();
    const row = (what: string, values: readonly number[]): string[] => [
      what,
      `${figure(median(values))} ms`,
      `${figure(at(values, 0.99))} ms`,
    ];
    console.log(`\nA label change on its way to ${kernels} kernels, ${rounds} times; all devices in one process:\n`);
    console.log(
      table(
        ['', 'p50', 'p99'],
        [
          row('API answered to the first kernel', first),
          row(`API answered to the last of ${kernels}`, last),
          row(`API asked to the last of ${kernels}`, whole),
        ],
      ),
    );
    return [
      { what: `API answer to the last of ${kernels} kernels, p50`, goal: 15, measured: median(last), unit: 'ms' },
    ];
  } finally {
    await Promise.all(followers.map((each) => each.close()));
    await lab.close();
    await rm(folder, { recursive: true, force: true });
  }
}
