/** Owns a server in a network namespace of its own, with a cable to its database whose packets can be dropped. */
import { createServer, connect as connectSocket, type AddressInfo, type Socket } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { adminToken } from '../faults/replicas.ts';
import { eventually } from '../lib/eventually.ts';
import { connect, Namespace } from '../lib/netns.ts';

const port = 8080;

/** Takes connections at a socket in the file system, which all namespaces share, and passes them on inside. */
const inner = (path: string): string => `
require('node:net').createServer((near) => {
  const far = require('node:net').connect(${port}, '127.0.0.1');
  for (const [from, to] of [[near, far], [far, near]]) from.on('error', () => to.destroy()).on('close', () => to.destroy()).pipe(to);
}).listen(${JSON.stringify(path)}, () => console.log('ready'));`;

export interface ServerNamespaceOptions {
  readonly database: Namespace;
  /** Distinguishes the cables of a database. */
  readonly number: number;
  readonly folder: string;
  readonly program: string;
}

export class ServerNamespace {
  readonly url: string;
  readonly #namespace: Namespace;
  readonly #options: ServerNamespaceOptions;
  #said = '';
  #ended: Promise<unknown> | undefined;
  #pid: number | undefined;

  private constructor(namespace: Namespace, url: string, options: ServerNamespaceOptions) {
    this.#namespace = namespace;
    this.url = url;
    this.#options = options;
  }

  /** The address of the database for the server with this number. */
  static databaseAddress(number: number): string {
    return `10.77.${number}.1`;
  }

  /** A namespace with its cable; the server is not started. It ends with the test. */
  static async open(options: ServerNamespaceOptions): Promise<ServerNamespace> {
    const { database, number, folder } = options;
    const namespace = await Namespace.create();
    onTestFinished(() => namespace.close());
    await connect(
      { namespace, name: 'db0', addresses: [`10.77.${number}.2/24`] },
      { namespace: database, name: `server${number}`, addresses: [`${ServerNamespace.databaseAddress(number)}/24`] },
    );
    const path = join(folder, `server-${number}.socket`);
    const bridge = namespace.spawn([process.execPath, '-e', inner(path)], { stdio: ['ignore', 'pipe', 'inherit'] });
    if (bridge.stdout !== null) await once(bridge.stdout, 'data');
    const sockets = new Set<Socket>();
    const outer = createServer((near) => {
      const far = connectSocket({ path });
      for (const [from, to] of [
        [near, far],
        [far, near],
      ] as const) {
        sockets.add(from);
        from.on('error', () => to.destroy()).on('close', () => to.destroy() && sockets.delete(from));
        from.pipe(to);
      }
    });
    outer.listen(0, '127.0.0.1');
    await once(outer, 'listening');
    onTestFinished(() => {
      outer.close();
      for (const socket of sockets) socket.destroy();
    });
    return new ServerNamespace(namespace, `http://127.0.0.1:${(outer.address() as AddressInfo).port}`, options);
  }

  /** Starts the server, and waits until it is ready. */
  async start(databaseUrl: string, args: readonly string[] = []): Promise<void> {
    const { program, folder, number } = this.#options;
    const own = ['server', '--listen', `127.0.0.1:${port}`, '--log-level', 'warn', '--workers', '1', ...args];
    const child = this.#namespace.spawn([process.execPath, program, ...own], {
      env: {
        RINGFENCE_DATABASE_URL: databaseUrl,
        RINGFENCE_DATA: join(folder, `server-${number}`),
        RINGFENCE_ADMIN_TOKEN: adminToken,
        RINGFENCE_RATE_LIMIT: '0',
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const output of [child.stdout, child.stderr])
      output?.on('data', (chunk: Buffer) => (this.#said = (this.#said + chunk.toString()).slice(-4_000)));
    this.#pid = child.pid;
    this.#ended = once(child, 'close');
    await eventually(
      () => `the server is ready: ${this.#said}`,
      async () => (await this.readiness()) === 200,
    );
  }

  /** The last it said, for a run that fails. */
  get said(): string {
    return this.#said;
  }

  /** The status of /readyz; 0 where nothing answers. */
  async readiness(): Promise<number> {
    return fetch(`${this.url}/readyz`).then(
      ({ status }) => status,
      () => 0,
    );
  }

  /** Sends the server a signal, and waits until it has ended. */
  async stop(signal: NodeJS.Signals): Promise<void> {
    if (this.#pid !== undefined) process.kill(this.#pid, signal);
    await this.#ended;
  }

  /** From now on every packet between the server and the database is dropped, without an answer. */
  async cut(): Promise<void> {
    const chains = [
      'chain out { type filter hook output priority 0; oifname "db0" drop; }',
      'chain in { type filter hook input priority 0; iifname "db0" drop; }',
    ];
    await this.#namespace.run(['nft', '-f', '-'], `table inet cut {\n${chains.join('\n')}\n}\n`);
  }

  async mend(): Promise<void> {
    await this.#namespace.run(['nft', 'delete', 'table', 'inet', 'cut']);
  }
}
