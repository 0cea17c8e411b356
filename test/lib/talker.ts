/** Owns connections that are kept busy inside namespaces: whether the far end is still heard is a question one can ask. */
import type { ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Namespace } from './netns.ts';

const script = fileURLToPath(new URL('talker.mjs', import.meta.url));

/** Milliseconds for what must come: a bound, no measure. */
const longest = 300_000;

/** The one process inside a namespace that keeps all its connections; it ends with its namespace. */
class Switchboard {
  readonly #child: ChildProcess;
  readonly #talkers = new Map<number, (line: string) => void>();

  constructor(namespace: Namespace) {
    this.#child = namespace.spawn([process.execPath, script], { stdio: ['pipe', 'pipe', 'inherit'] });
    if (this.#child.stdout === null) throw new Error('the talkers have no output');
    createInterface({ input: this.#child.stdout }).on('line', (line) => {
      const [, number = '', text = ''] = /^(\d+) (.*)$/.exec(line) ?? [];
      this.#talkers.get(Number(number))?.(text);
    });
    this.#child.stdin?.on('error', () => {}); // It has ended, and with it what was said.
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** A new number whose lines are heard from now on. */
  add(onLine: (line: string) => void): number {
    const number = this.#talkers.size + 1;
    this.#talkers.set(number, onLine);
    return number;
  }

  order(order: object): void {
    this.#child.stdin?.write(`${JSON.stringify(order)}\n`);
  }
}

const switchboards = new WeakMap<Namespace, Switchboard>();

function switchboardIn(namespace: Namespace): Switchboard {
  const known = switchboards.get(namespace);
  if (known?.isRunning === true) return known;
  const switchboard = new Switchboard(namespace);
  switchboards.set(namespace, switchboard);
  return switchboard;
}

export class Talker {
  readonly lines: string[] = [];
  readonly #waiting = new Set<() => void>();
  readonly #switchboard: Switchboard;
  readonly #number: number;

  private constructor(namespace: Namespace, order: object) {
    this.#switchboard = switchboardIn(namespace);
    this.#number = this.#switchboard.add((line) => {
      this.lines.push(line);
      for (const wake of this.#waiting) wake();
    });
    this.#switchboard.order({ number: this.#number, ...order });
  }

  static serve(namespace: Namespace, ...ports: number[]): Promise<Talker> {
    return Talker.#serve(namespace, { do: 'serve', ports }, ports);
  }

  /** The same by UDP: says something all the time to everybody whom it has ever heard. */
  static serveDatagrams(namespace: Namespace, ...ports: number[]): Promise<Talker> {
    return Talker.#serve(namespace, { do: 'serve', protocol: 'udp', ports }, ports);
  }

  static async #serve(namespace: Namespace, order: object, ports: readonly number[]): Promise<Talker> {
    const talker = new Talker(namespace, order);
    for (const port of ports) {
      const listening = await talker.next((line) => line === `listening ${port}`, 0);
      if (listening === undefined) throw new Error(`nobody listens on port ${port}: ${talker.lines.join(', ')}`);
    }
    return talker;
  }

  /** Connects, and waits until the far end was heard. */
  static async call(
    namespace: Namespace,
    address: string,
    port: number,
    { within = longest, ...how }: { readonly within?: number; readonly from?: string; readonly protocol?: 'udp' } = {},
  ): Promise<Talker> {
    const talker = new Talker(namespace, { do: 'call', address, port, ...how });
    const heard = await talker.next((line) => line.startsWith('heard'), 0, within);
    if (heard === undefined) throw new Error(`${address} port ${port} was never heard: ${talker.lines.join(', ')}`);
    return talker;
  }

  /** The next such line, from now on or from that place on; undefined when none comes in time. */
  async next(
    wanted: (line: string) => boolean,
    from = this.lines.length,
    within = longest,
  ): Promise<string | undefined> {
    const find = (): string | undefined => this.lines.slice(from).find(wanted);
    if (find() === undefined) {
      await new Promise<void>((resolve) => {
        const done = (): void => {
          clearTimeout(timer);
          this.#waiting.delete(look);
          resolve();
        };
        const look = (): void => {
          if (find() !== undefined) done();
        };
        const timer = setTimeout(done, within);
        this.#waiting.add(look);
      });
    }
    return find();
  }

  /** Whether the far end is heard from now on. */
  async isHeard(within = longest): Promise<boolean> {
    return (await this.next((line) => line.startsWith('heard'), this.lines.length, within)) !== undefined;
  }

  /** Whether the far end falls silent, and stays so for a while: what it said before may still be on its way. */
  async isSilenced(aWhile: number): Promise<boolean> {
    const until = Date.now() + longest;
    while (await this.isHeard(aWhile)) if (Date.now() > until) return false;
    return true;
  }

  hangUp(): void {
    this.#switchboard.order({ number: this.#number, do: 'end' });
  }
}
