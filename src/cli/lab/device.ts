/** Owns one device of the lab: its namespace, its agent, and hands that try things inside. */
import type { ChildProcess } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Answer, Deed } from './traffic.ts';
import type { Namespace, Outcome } from './namespace.ts';
import { addressesOf, door, driverName, type Addresses } from './topology.ts';
import { Worker } from './child-program.ts';

export interface LabDeviceOptions {
  readonly number: number;
  readonly namespace: Namespace;
  /** What is kept of it: state and logs. */
  readonly folder: string;
  /** The command line of this very program. */
  readonly program: readonly string[];
}

export class LabDevice {
  readonly number: number;
  readonly name: string;
  readonly namespace: Namespace;
  readonly addresses: Addresses;
  readonly stateFolder: string;
  readonly #options: LabDeviceOptions;
  #agent: Worker | undefined;
  #hands: Hands | undefined;

  constructor(options: LabDeviceOptions) {
    this.#options = options;
    this.number = options.number;
    this.name = deviceName(options.number);
    this.namespace = options.namespace;
    this.addresses = addressesOf(options.number);
    this.stateFolder = join(options.folder, this.name);
  }

  get agent(): Worker | undefined {
    return this.#agent;
  }
  get agentLog(): string {
    return `${this.stateFolder}.log`;
  }

  /** Starts an agent; what an earlier one kept is still there. */
  async startAgent(args: readonly string[]): Promise<Worker> {
    if (this.#agent?.isRunning === true) throw new Error(`the agent of ${this.name} runs already`);
    await mkdir(this.stateFolder, { recursive: true, mode: 0o700 });
    const server = `http://${door.address}:${door.port}`;
    const own = ['--server', server, '--interface', driverName, '--state', this.stateFolder];
    const child = this.namespace.spawn([...this.#options.program, 'agent', ...own, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    this.#agent = new Worker(child, this.agentLog);
    return this.#agent;
  }

  async stopAgent(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    await this.#agent?.end(signal);
    this.#agent = undefined;
  }

  /** Does it inside, at once. */
  perform(deed: Deed): Promise<Answer> {
    this.#hands ??= new Hands(this.namespace, this.#options.program);
    return this.#hands.perform(deed);
  }

  /** One echo request. */
  async ping(address: string, options: readonly string[] = []): Promise<Answer> {
    const { code } = await this.namespace.attempt(['ping', '-n', '-c', '1', '-W', '1', ...options, address]);
    return code === 0 ? 'open' : 'closed';
  }

  nft(...args: readonly string[]): Promise<Outcome> {
    return this.namespace.attempt(['nft', ...args]);
  }
}

export const deviceName = (number: number): string => `device-${number}`;

/** Hands inside a namespace: one process for any number of deeds. */
export class Hands {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, (answer: Answer) => void>();
  #count = 0;

  constructor(namespace: Namespace, program: readonly string[]) {
    this.#child = namespace.spawn([...program, 'lab', 'hands'], { stdio: ['pipe', 'pipe', 'inherit'], detached: true });
    if (this.#child.stdout === null) throw new Error('the hands have no output');
    createInterface({ input: this.#child.stdout }).on('line', (line) => {
      const { id, answer } = JSON.parse(line) as { readonly id: number; readonly answer: Answer };
      this.#waiting.get(id)?.(answer);
      this.#waiting.delete(id);
    });
    this.#child.once('close', (code, signal) => {
      for (const resolve of this.#waiting.values()) resolve(`the hands ended by ${signal ?? code}`);
    });
    this.#child.stdin?.on('error', () => {});
  }

  perform(deed: Deed): Promise<Answer> {
    const id = ++this.#count;
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      this.#child.stdin?.write(`${JSON.stringify({ id, deed })}\n`);
    });
  }

  rest(): void {
    this.#child.stdin?.end();
  }
}
