/** Owns one device of the lab: its namespace, its agent, and the traffic made inside it. */
import type { ChildProcess } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Namespace, Outcome } from './namespace.ts';
import { addressesOf, relayAddress, driverName, type Addresses } from './topology.ts';
import { ChildProgram } from './child-program.ts';

export type TrafficRequest =
  /** Answers everything that comes to the port with its echo, at every address of the device. */
  | { readonly do: 'serve'; readonly protocol: 'tcp' | 'udp'; readonly port: number }
  /** Sends once and waits for the echo. */
  | {
      readonly do: 'probe';
      readonly protocol: 'tcp' | 'udp';
      readonly address: string;
      readonly port: number;
      /** Milliseconds; a bound on the wait for what may never come. */
      readonly timeoutMs: number;
      readonly localPort?: number;
      /** Bytes to send and to get back. */
      readonly size?: number;
    }
  /** Opens a connection and keeps it, under this name. */
  | {
      readonly do: 'connect';
      readonly name: string;
      readonly address: string;
      readonly port: number;
      readonly timeoutMs: number;
    }
  /** Sends something over the kept connection and waits for its echo. */
  | { readonly do: 'echo'; readonly name: string; readonly timeoutMs: number };

/** `open`: it came back. `closed`: nothing did. Else what the system said. */
export type TrafficResult = string;

export interface LabDeviceOptions {
  readonly number: number;
  readonly namespace: Namespace;
  /** What is kept of it: state and logs. */
  readonly folder: string;
  /** The command line of `ringfence`. */
  readonly program: readonly string[];
}

export class LabDevice {
  readonly number: number;
  readonly name: string;
  readonly namespace: Namespace;
  readonly addresses: Addresses;
  readonly stateFolder: string;
  readonly #options: LabDeviceOptions;
  #agent: ChildProgram | undefined;
  #traffic: TrafficHelper | undefined;

  constructor(options: LabDeviceOptions) {
    this.#options = options;
    this.number = options.number;
    this.name = deviceName(options.number);
    this.namespace = options.namespace;
    this.addresses = addressesOf(options.number);
    this.stateFolder = join(options.folder, this.name);
  }

  get agent(): ChildProgram | undefined {
    return this.#agent;
  }
  get agentLog(): string {
    return `${this.stateFolder}.log`;
  }

  /** Starts an agent; what an earlier one kept is still there. */
  async startAgent(args: readonly string[]): Promise<ChildProgram> {
    if (this.#agent?.isRunning === true) throw new Error(`the agent of ${this.name} is already running`);
    await mkdir(this.stateFolder, { recursive: true, mode: 0o700 });
    const server = `http://${relayAddress.address}:${relayAddress.port}`;
    const own = ['--server', server, '--interface', driverName, '--state', this.stateFolder];
    const child = this.namespace.spawn([...this.#options.program, 'agent', ...own, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    this.#agent = new ChildProgram(child, this.agentLog);
    return this.#agent;
  }

  async stopAgent(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    await this.#agent?.end(signal);
    this.#agent = undefined;
  }

  /** Does it inside, at once. */
  perform(request: TrafficRequest): Promise<TrafficResult> {
    this.#traffic ??= new TrafficHelper(this.namespace);
    return this.#traffic.perform(request);
  }

  /** One echo request. */
  async ping(address: string, options: readonly string[] = []): Promise<TrafficResult> {
    const { code } = await this.namespace.attempt(['ping', '-n', '-c', '1', '-W', '1', ...options, address]);
    return code === 0 ? 'open' : 'closed';
  }

  nft(...args: readonly string[]): Promise<Outcome> {
    return this.namespace.attempt(['nft', ...args]);
  }
}

export const deviceName = (number: number): string => `device-${number}`;

/** Makes traffic inside a namespace: one process for any number of requests. */
export class TrafficHelper {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, (answer: TrafficResult) => void>();
  #count = 0;

  constructor(namespace: Namespace) {
    this.#child = namespace.spawn([process.execPath, fileURLToPath(new URL('./traffic.mjs', import.meta.url))], {
      stdio: ['pipe', 'pipe', 'inherit'],
      detached: true,
    });
    if (this.#child.stdout === null) throw new Error('the traffic helper has no output');
    createInterface({ input: this.#child.stdout }).on('line', (line) => {
      const { id, answer } = JSON.parse(line) as { readonly id: number; readonly answer: TrafficResult };
      this.#waiting.get(id)?.(answer);
      this.#waiting.delete(id);
    });
    this.#child.once('close', (code, signal) => {
      for (const resolve of this.#waiting.values()) resolve(`the traffic helper exited with ${signal ?? code}`);
    });
    this.#child.stdin?.on('error', () => {});
  }

  perform(request: TrafficRequest): Promise<TrafficResult> {
    const id = ++this.#count;
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      this.#child.stdin?.write(`${JSON.stringify({ id, request })}\n`);
    });
  }

  close(): void {
    this.#child.stdin?.end();
  }
}
