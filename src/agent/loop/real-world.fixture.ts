/**
 * Owns an agent on a real kernel: a device and a peer in namespaces of their own. The test controls only the policy
 * source.
 */
import { mkdtemp, readdir, readFile, readlink, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { attemptQuickly } from '../../../test/lib/batch-runner.ts';
import { eventually } from '../../../test/lib/eventually.ts';
import { connect, Namespace } from '../../../test/lib/netns.ts';
import { systemClock, type Clock } from '../../client/clock.ts';
import { decompile, type Decompiled } from '../../nft/read/decompile.ts';
import { parseListing } from '../../nft/read/parse-listing.fixture.ts';
import { FakeSource } from './agent.fixture.ts';
import { Agent } from './agent.ts';
import type { AgentOptions } from './loop.ts';
import { parseSelector } from '../host/driver-interface.ts';
import { FilterMonitor } from '../kernel/filter-monitor.ts';
import { LinkMonitor } from '../host/link-monitor.ts';
import { printLine } from '../host/log.ts';
import { NetlinkChannel, type ChannelOptions } from '../netlink/channel.ts';
import { netlinkFlowTable } from '../netlink/flow-table.ts';
import { netlinkRouteTable } from '../netlink/route-table.ts';
import { RealNft } from '../kernel/real-nft.ts';
import { commandFlowTable } from '../host/command-flow-table.ts';
import { commandRouteTable } from '../host/command-route-table.ts';
import { listOpenFlows } from '../host/open-flows.ts';
import { rememberingAddresses } from '../host/remembered-addresses.ts';
import { revokeFlows } from '../host/revoke-flows.ts';
import { commandRunner } from '../host/run-command.ts';
import { StateFolder } from '../state/state-folder.ts';

export const device4 = '100.64.0.1';
export const device6 = 'fd7f::1';
export const peer4 = '100.64.0.2';
export const peer6 = 'fd7f::2';
export const driver = 'rf0';

/** What of the agent's surroundings differs from the usual. */
export type WorldOverrides = Partial<AgentOptions> & {
  readonly netlink?: Pick<ChannelOptions, 'argv' | 'timeout'>;
  /** The program that lists and watches interfaces, and the time by which the agent waits for it. */
  readonly ip?: string;
  readonly linkClock?: Clock;
};

export class RealWorld {
  readonly source = new FakeSource();
  readonly logged: string[] = [];
  readonly device: Namespace;
  readonly peer: Namespace;
  readonly folder: string;
  readonly #overrides: WorldOverrides;
  #running: { readonly agent: Agent; readonly stop: () => Promise<void> } | undefined;

  private constructor(device: Namespace, peer: Namespace, folder: string, overrides: WorldOverrides) {
    this.device = device;
    this.peer = peer;
    this.folder = folder;
    this.#overrides = overrides;
  }

  static async open(overrides: WorldOverrides = {}): Promise<RealWorld> {
    const [device, peer] = await Promise.all([Namespace.create(), Namespace.create()]);
    await connect(
      { namespace: device, name: driver, addresses: [`${device4}/24`, `${device6}/64`] },
      { namespace: peer, name: driver, addresses: [`${peer4}/24`, `${peer6}/64`] },
    );
    const folder = await mkdtemp(join(tmpdir(), 'ringfence-world-'));
    return new RealWorld(device, peer, folder, overrides);
  }

  get agent(): Agent {
    if (this.#running === undefined) throw new Error('the agent does not run');
    return this.#running.agent;
  }

  start(): Agent {
    const prefix = this.device.inside([]);
    const clock = systemClock;
    const { netlink: channel, ip: program = 'ip', linkClock = clock, ...overrides } = this.#overrides;
    const netlink = new NetlinkChannel({ clock, prefix, ...channel });
    netlink.start();
    const nft = new RealNft({ clock, scratch: this.folder, prefix, netlink });
    const run = commandRunner(prefix);
    const table = netlinkFlowTable(netlink, commandFlowTable(run));
    const routes = netlinkRouteTable(netlink, commandRouteTable(run));
    const addresses = rememberingAddresses(routes, () => performance.now());
    const agent = new Agent({
      nft,
      clock,
      source: this.source,
      selector: parseSelector(driver),
      untilFirstPolicy: 'closed',
      monotonic: () => performance.now(),
      random: Math.random,
      log: (level, message, fields) => this.logged.push(`${level} ${printLine(message, fields)}`),
      state: new StateFolder({ folder: join(this.folder, 'state') }),
      revoke: (revocation, block) => revokeFlows({ routes: addresses, table, block }, revocation),
      listOpen: (question) => listOpenFlows({ routes, table }, question),
      monitor: (onEvent) => new FilterMonitor({ clock, prefix, onEvent }),
      links: (onChange, onMoved) =>
        new LinkMonitor({ clock: linkClock, prefix, program, onChange, onMoved, onLost: () => {} }),
      ...overrides,
    });
    const end = new AbortController();
    const running = agent.run({ signal: end.signal });
    const stop = async (): Promise<void> => {
      end.abort();
      await running;
      await Promise.all([nft.close(), netlink.close()]);
    };
    this.#running = { agent, stop };
    return agent;
  }

  async stop(): Promise<void> {
    await this.#running?.stop();
    this.#running = undefined;
  }

  /** Like `eventually`; a failure shows what the agent did and what the kernel holds. */
  async eventually(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
    try {
      await eventually(what, condition);
    } catch (error) {
      const { stdout, stderr } = await this.device.attempt(['nft', 'list', 'table', 'inet', 'service']);
      const message = error instanceof Error ? error.message : String(error);
      throw new Error([message, ...this.logged.slice(-20), stdout, stderr].join('\n'), { cause: error });
    }
  }

  /** What the kernel enforces, read by another way than the agent's. */
  async kernel(): Promise<Decompiled | undefined> {
    const { code, stdout } = await attemptQuickly(this.device, ['nft', '-j', 'list', 'table', 'inet', 'service']);
    const installed = code === 0 ? parseListing(JSON.parse(stdout)) : undefined;
    return installed && decompile(installed);
  }

  /** Process ids of every program of that name inside the device. */
  async processes(name: string): Promise<number[]> {
    const own = await readlink(`/proc/${this.device.pid}/ns/net`);
    const pids = (await readdir('/proc')).filter((entry) => /^\d+$/.test(entry));
    const found = await Promise.all(
      pids.map(async (pid) => {
        try {
          const [net, comm] = await Promise.all([
            readlink(`/proc/${pid}/ns/net`),
            readFile(`/proc/${pid}/comm`, 'utf8'),
          ]);
          return net === own && comm === `${name}\n` ? Number(pid) : undefined;
        } catch {
          return undefined; // It ended meanwhile.
        }
      }),
    );
    return found.filter((pid) => pid !== undefined);
  }

  async close(): Promise<void> {
    await this.stop();
    await Promise.all([this.device.close(), this.peer.close()]);
    await rm(this.folder, { recursive: true, force: true });
  }
}
