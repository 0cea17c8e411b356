/** Owns connections that are kept busy inside namespaces: whether the far end is still heard is a question one can ask. */
import type { ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Namespace } from './netns.ts';

const script = fileURLToPath(new URL('talker.mjs', import.meta.url));

export class Talker {
  readonly lines: string[] = [];
  readonly #waiting = new Set<() => void>();
  readonly #child: ChildProcess;

  private constructor(namespace: Namespace, args: readonly string[]) {
    this.#child = namespace.spawn([process.execPath, script, ...args], { stdio: ['pipe', 'pipe', 'inherit'] });
    if (this.#child.stdout === null) throw new Error('the talker has no output');
    createInterface({ input: this.#child.stdout }).on('line', (line) => {
      this.lines.push(line);
      for (const wake of this.#waiting) wake();
    });
  }

  static async serve(namespace: Namespace, ...ports: number[]): Promise<Talker> {
    const talker = new Talker(namespace, ['serve', ...ports.map(String)]);
    for (const port of ports) await talker.next((line) => line === `listening ${port}`, 0);
    return talker;
  }

  /** Connects, and waits until the far end was heard. */
  static async call(
    namespace: Namespace,
    address: string,
    port: number,
    { within = 20_000, from }: { readonly within?: number; readonly from?: string } = {},
  ): Promise<Talker> {
    const talker = new Talker(namespace, ['call', address, String(port), ...(from === undefined ? [] : [from])]);
    const heard = await talker.next((line) => line.startsWith('heard'), 0, within);
    if (heard === undefined) throw new Error(`${address} port ${port} was never heard: ${talker.lines.join(', ')}`);
    return talker;
  }

  /** The next such line, from now on or from that place on; undefined when none comes in time. */
  async next(
    wanted: (line: string) => boolean,
    from = this.lines.length,
    within = 20_000,
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
  async isHeard(within = 20_000): Promise<boolean> {
    return (await this.next((line) => line.startsWith('heard'), this.lines.length, within)) !== undefined;
  }

  hangUp(): void {
    this.#child.stdin?.end();
  }
}
