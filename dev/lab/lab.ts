/**
 * Owns the lab: a server and devices in network namespaces, with real programs on real interfaces. Closing it removes
 * everything.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from '../../src/client/http.ts';
import { nodeFetch } from '../../src/node/fetch.ts';
import { deviceName, LabDevice } from './device.ts';
import { Namespace } from './namespace.ts';
import { Relay } from './relay.ts';
import { buildHub, connectDriver, connectUnderlay, connectUplink } from './topology.ts';
import { makeKey, openTunnel } from './wireguard.ts';
import { ChildProgram, type ProcessExit } from './child-program.ts';

export type Tunnel = 'veth' | 'wireguard';

export interface LabOptions {
  /** Namespaces are called after it; none: they have no names. */
  readonly name?: string;
  readonly devices: number;
  readonly tunnel: Tunnel;
  /** The command line of `ringfence`. */
  readonly program: readonly string[];
  readonly listen?: string;
  readonly serverArguments?: readonly string[];
  readonly agentArguments?: readonly string[];
  /** Only server and devices: no organization, no agents. */
  readonly bare?: boolean;
  /** Called when an agent ends unexpectedly. */
  readonly onAgentEnd?: (device: LabDevice, exit: ProcessExit) => void;
}

export class Lab {
  readonly folder: string;
  readonly devices: readonly LabDevice[];
  readonly #options: LabOptions;
  readonly #hub: Namespace;
  readonly #relay: Relay;
  readonly #adminToken = `rf_user_${randomBytes(32).toString('base64url')}`;
  readonly #publicKeys: readonly string[];
  #server: { readonly child: ChildProgram; readonly url: string } | undefined;
  #place: { readonly organization: string; readonly token: string } | undefined;
  #enrollmentKey: string | undefined;
  #closing = false;

  private constructor(
    options: LabOptions,
    parts: {
      readonly folder: string;
      readonly hub: Namespace;
      readonly relay: Relay;
      readonly devices: readonly LabDevice[];
      readonly publicKeys: readonly string[];
    },
  ) {
    this.#options = options;
    this.folder = parts.folder;
    this.#hub = parts.hub;
    this.#relay = parts.relay;
    this.devices = parts.devices;
    this.#publicKeys = parts.publicKeys;
  }

  /** A lab that is ready: every device is enrolled and its first policy is in force (not so a bare one). */
  static async open(options: LabOptions): Promise<Lab> {
    const lab = await Lab.#build(options);
    try {
      await lab.startServer();
      if (options.bare !== true) {
        await lab.#createOrganization();
        await Promise.all(lab.devices.map((device) => lab.startAgent(device)));
        await lab.#waitForPolicies();
      }
      return lab;
    } catch (error) {
      await lab.close();
      throw error;
    }
  }

  static async #build(options: LabOptions): Promise<Lab> {
    const folder = await mkdtemp(join(tmpdir(), 'ringfence-lab-'));
    // The database runs under another account and must find its way in.
    await chmod(folder, 0o711);
    const opened: Namespace[] = [];
    const make = async (hostname: string): Promise<Namespace> => {
      const name = options.name === undefined ? {} : { name: `${options.name}-${hostname}` };
      const namespace = await Namespace.create({ hostname, ...name });
      opened.push(namespace);
      return namespace;
    };
    try {
      const numbers = Array.from({ length: options.devices }, (_, index) => index + 1);
      const hub = await make('hub');
      await buildHub(hub);
      const agents = join(folder, 'devices');
      await mkdir(agents, { mode: 0o700 });
      const devices = await Promise.all(
        numbers.map(async (number) => {
          const namespace = await make(deviceName(number));
          const link = { hub, device: namespace, number };
          await connectUplink(link);
          await (options.tunnel === 'veth' ? connectDriver : connectUnderlay)(link);
          return new LabDevice({ number, namespace, folder: agents, program: options.program });
        }),
      );
      const publicKeys = options.tunnel === 'veth' ? [] : await tunnels(devices);
      const relay = await Relay.open(hub);
      return new Lab(options, { folder, hub, relay, devices, publicKeys });
    } catch (error) {
      await Promise.all(opened.map((namespace) => namespace.close()));
      await rm(folder, { recursive: true, force: true });
      throw error;
    }
  }

  get url(): string {
    return this.#server?.url ?? '';
  }
  get adminToken(): string {
    return this.#adminToken;
  }
  /** The organization of the devices and its owner's token. */
  get place(): { readonly organization: string; readonly token: string } {
    if (this.#place === undefined) throw new Error('this lab has no organization');
    return this.#place;
  }

  device(number: number): LabDevice {
    const device = this.devices[number - 1];
    if (device === undefined) throw new Error(`this lab has no device ${number}`);
    return device;
  }

  client(token: string): Client {
    return new Client({ url: this.url, token, fetch: nodeFetch });
  }

  /** Starts the server on the lab's data, whatever became of an earlier one. */
  async startServer(more: readonly string[] = []): Promise<void> {
    const { program, listen = '127.0.0.1:0', serverArguments = [] } = this.#options;
    const [command = '', ...args] = program;
    const own = ['server', '--data', join(this.folder, 'server'), '--listen', listen];
    const env = { ...withoutOurs(process.env), RINGFENCE_ADMIN_TOKEN: this.#adminToken };
    const argv = ['--pdeathsig', 'TERM', command, ...args, ...own, ...serverArguments, ...more];
    const child = new ChildProgram(
      spawn('setpriv', argv, { env, stdio: ['ignore', 'pipe', 'pipe'], detached: true }),
      join(this.folder, 'server.log'),
    );
    try {
      const [, url = ''] = await child.waitFor(/^ {2}API +(https?:\S+)\/api/m);
      const { hostname, port } = new URL(url);
      this.#relay.target = { host: hostname, port: Number(port) };
      this.#server = { child, url };
    } catch (error) {
      await child.end('SIGKILL');
      throw error;
    }
  }

  async stopServer(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    await this.#server?.child.end(signal);
    this.#server = undefined;
    this.#relay.target = undefined;
  }

  /** An owner, an organization, and a key for as many devices as there are. */
  async #createOrganization(): Promise<void> {
    const admin = this.client(this.#adminToken);
    const owner = await admin.users.create({ username: 'owner' });
    const { token } = await admin.tokens.createFor(owner.id);
    const client = this.client(token);
    const { id } = await client.organizations.create({ name: this.#options.name ?? 'lab' });
    this.#place = { organization: id, token };
    this.#enrollmentKey = (await client.enrollmentKeys.create(id, { uses: this.devices.length })).key;
  }

  /** Starts the agent of a device: enrolls it the first time, and afterwards it knows itself. */
  async startAgent(device: LabDevice, more: readonly string[] = []): Promise<void> {
    const { agentArguments = [], onAgentEnd } = this.#options;
    const publicKey = this.#publicKeys[device.number - 1];
    const child = await device.startAgent([
      '--organization',
      this.place.organization,
      '--enroll',
      this.#enrollmentKey ?? '',
      ...(publicKey === undefined ? [] : ['--public-key', publicKey]),
      ...agentArguments,
      ...more,
    ]);
    void child.ended.then((exit) => {
      if (!this.#closing && device.agent === child) onAgentEnd?.(device, exit);
    });
  }

  /** Waits until every device is registered, knows its address, and has a policy of the server in force. */
  async #waitForPolicies(): Promise<void> {
    const { organization, token } = this.place;
    const client = this.client(token);
    await Promise.all(this.devices.map(async ({ agent }) => agent?.waitFor(/origin=server/)));
    for (const record of await client.devices.list(organization)) {
      const device = this.devices.find(({ name }) => name === record.hostname);
      if (device !== undefined) {
        await client.devices.update(organization, record.id, { tunnel_ip: device.addresses.driver4 });
      }
    }
  }

  async close(): Promise<void> {
    this.#closing = true;
    await Promise.all([...this.devices.map((device) => device.stopAgent()), this.stopServer()]);
    this.#relay.close();
    await Promise.all([this.#hub, ...this.devices.map(({ namespace }) => namespace)].map((each) => each.close()));
    await removeFolder(this.folder);
  }
}

async function tunnels(devices: readonly LabDevice[]): Promise<readonly string[]> {
  const keys = await Promise.all(devices.map(({ namespace }) => makeKey(namespace)));
  await Promise.all(
    devices.map(({ namespace: device, number, stateFolder }) =>
      openTunnel({ device, number, keys, file: `${stateFolder}.tunnel` }),
    ),
  );
  return keys.map(({ publicKey }) => publicKey);
}

/** Settings that a person has for the client commands must not reach the lab's own server. */
const withoutOurs = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('RINGFENCE_')));

/** The database may write its last files while it ends. */
export async function removeFolder(folder: string): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    try {
      await rm(folder, { recursive: true, force: true });
      return;
    } catch (error) {
      if (attempt === 50) throw error;
      await sleep(100);
    }
  }
}
