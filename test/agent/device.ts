/** Owns a device for tests of the whole agent: a namespace with a driver interface, a way to the server, and the program. */
import type { ChildProcess } from 'node:child_process';
import { chmod, copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect as dial, Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { vi } from 'vitest';
import { askStatus, NoAnswer } from '../../src/agent/report/status-socket.ts';
import type { StatusDocument } from '../../src/agent/report/status-document.ts';
import { parseAddress } from '../../src/policy/address.ts';
import { admits } from '../../src/policy/canonicalize.ts';
import { decompile, type Decompiled } from '../../src/nft/read/decompile.ts';
import { parseListing } from '../../src/nft/read/parse-listing.fixture.ts';
import { copyProgram } from '../lib/built.ts';
import { attemptQuickly } from '../lib/batch-runner.ts';
import { eventually } from '../lib/eventually.ts';
import { connect, Namespace, type Outcome } from '../lib/netns.ts';

export const driver = 'rf0';
const port = 8_080;

/** The program as it is installed: `bin/ringfence` beside what was built. Readable by any user. */
export async function installProgram(): Promise<{ readonly folder: string; readonly program: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'ringfence-agent-'));
  await Promise.all([chmod(folder, 0o755), mkdir(join(folder, 'bin')), copyProgram(join(folder, 'dist'))]);
  const program = join(folder, 'bin', 'ringfence');
  await copyFile(fileURLToPath(new URL('../../bin/ringfence', import.meta.url)), program);
  await writeFile(join(folder, 'package.json'), '{ "type": "module", "version": "7.7.7" }\n');
  return { folder, program };
}

/**
 * A door inside a namespace to a server outside. A socket stays in the namespace where it was made, even when another
 * process holds it. So a short-lived process inside makes the listener and hands it over, and no interface of the
 * machine itself is touched.
 */
export class Door {
  readonly url: string;
  /** The server's address; without one, connections are refused. */
  target: string | undefined;
  readonly #listener: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(listener: Server, host: string) {
    this.url = `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
    this.#listener = listener.on('connection', (near: Socket) => this.#pass(near));
  }

  /** At the namespace's own loopback, unless another address of it is given. */
  static async open(namespace: Namespace, host = '127.0.0.1'): Promise<Door> {
    const script = `const s = require('node:net').createServer({ pauseOnConnect: true });
      s.listen(${port}, '${host}', () => process.send('here', s));`;
    const child: ChildProcess = namespace.spawn([process.execPath, '-e', script], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    return new Promise((resolve, reject) => {
      child.once('message', (_, handle) => {
        child.once('close', () => {
          if (handle instanceof Server) resolve(new Door(handle, host));
          else reject(new Error('there is no door'));
        });
        // A second holder of the listener would also accept connections.
        child.kill('SIGKILL');
      });
      child.once('error', reject);
    });
  }

  /** Cuts everybody off. */
  shut(): void {
    this.target = undefined;
    for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    this.shut();
    await new Promise((resolve) => this.#listener.close(resolve));
  }

  #pass(near: Socket): void {
    if (this.target === undefined) {
      near.resetAndDestroy();
      return;
    }
    const far = dial(Number(new URL(this.target).port), '127.0.0.1');
    const ends = [near, far] as const;
    for (const [index, socket] of ends.entries()) {
      const other = ends[1 - index];
      this.#sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        this.#sockets.delete(socket);
        other?.destroy();
      });
      if (other !== undefined) socket.pipe(other);
    }
  }
}

/** An agent that runs. */
export class RunningAgent {
  readonly child: ChildProcess;
  readonly ended: Promise<number | string>;
  output = '';

  constructor(child: ChildProcess) {
    this.child = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => (this.output += text));
    }
    this.ended = new Promise((resolve) => child.once('close', (code, signal) => resolve(code ?? signal ?? 'unknown')));
  }

  async end(signal: NodeJS.Signals): Promise<number | string> {
    this.child.kill(signal);
    return this.ended;
  }

  /** How many lines of its log hold this. */
  lines(part: string | RegExp): number {
    return this.output.split('\n').filter((line) => (typeof part === 'string' ? line.includes(part) : part.test(line)))
      .length;
  }
}

export class Device {
  readonly namespace: Namespace;
  readonly peer: Namespace;
  readonly door: Door;
  readonly #program: string;

  private constructor(namespace: Namespace, peer: Namespace, door: Door, program: string) {
    this.namespace = namespace;
    this.peer = peer;
    this.door = door;
    this.#program = program;
  }

  static async open(program: string): Promise<Device> {
    const [namespace, peer] = await Promise.all([Namespace.create(), Namespace.create()]);
    await connect(
      { namespace, name: driver, addresses: ['100.64.0.1/24', 'fd7f::1/64'] },
      { namespace: peer, name: driver, addresses: ['100.64.0.2/24', 'fd7f::2/64'] },
    );
    return new Device(namespace, peer, await Door.open(namespace), program);
  }

  /** The command line of `ringfence agent` with these arguments; `through` is a command that runs it. */
  #command(args: readonly string[], through: readonly string[]): readonly string[] {
    return [...through, process.execPath, this.#program, 'agent', ...args];
  }

  start(args: readonly string[], through: readonly string[] = []): RunningAgent {
    return new RunningAgent(
      this.namespace.spawn(this.#command(args, through), {
        stdio: ['ignore', 'pipe', 'pipe'],
        env: { RINGFENCE_TOKEN: '', RINGFENCE_STATE: '' },
      }),
    );
  }

  /** Runs it to its end. */
  run(args: readonly string[], through: readonly string[] = []): Promise<Outcome> {
    return this.namespace.attempt(this.#command(args, through));
  }

  /** What the kernel enforces, read by another way than the agent's. */
  async kernel(): Promise<Decompiled | undefined> {
    const { code, stdout } = await attemptQuickly(this.namespace, ['nft', '-j', 'list', 'table', 'inet', 'service']);
    const installed = code === 0 ? parseListing(JSON.parse(stdout)) : undefined;
    return installed && decompile(installed);
  }

  /** Which of a few ports of TCP the kernel opens to the peer, in short; `none` where there is no table. */
  async openPorts(): Promise<string> {
    const kernel = await this.kernel();
    if (kernel === undefined) return 'none';
    const policy = kernel.enforced?.policy;
    const remote = parseAddress('100.64.0.2');
    if (policy === undefined || 'fault' in remote) return 'unreadable';
    const isOpen = (dport: number): boolean =>
      admits(policy, { direction: 'inbound', family: 4, remote: remote.value, transport: { kind: 'tcp', dport } });
    return [22, 80, 443].filter(isOpen).join(' ');
  }

  /** Waits until the kernel opens these ports and no other. */
  async untilOpen(ports: string, agent?: RunningAgent): Promise<void> {
    let seen = '';
    await eventually(
      () => `the kernel opens "${ports}", it opens "${seen}"\n${agent?.output ?? ''}`,
      async () => (seen = await this.openPorts()) === ports,
    );
  }

  async close(): Promise<void> {
    await this.door.close();
    await Promise.all([this.namespace.close(), this.peer.close()]);
  }
}

/**
 * The status of the agent with this state directory, requested as `agent status` does; undefined while none answers.
 */
export const statusOf = (state: string): Promise<StatusDocument | undefined> =>
  askStatus(state).catch((error: unknown) => {
    if (error instanceof NoAnswer) return undefined;
    throw error;
  });

/** Rules are in force a moment before the agent reports it: an expectation about its report has time to come true. */
export const comesTrue = (expectation: () => Promise<void>): Promise<void> =>
  vi.waitFor(expectation, { timeout: 300_000, interval: 100 });

export const removeFolder = (folder: string): Promise<void> => rm(folder, { recursive: true, force: true });
