/** Owns a name server inside a namespace whose answers the test sets. */
import type { ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Namespace } from './netns.ts';

const script = fileURLToPath(new URL('name-server.mjs', import.meta.url));

export class NameServer {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  private constructor(child: ChildProcess) {
    this.#child = child;
    if (child.stdout === null) throw new Error('the name server has no output');
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  }

  /** Listens on port 53 of this address; answers nothing until `answer` is called. It ends with its namespace. */
  static async open(namespace: Namespace, address: string): Promise<NameServer> {
    const child = namespace.spawn([process.execPath, script, address], { stdio: ['pipe', 'pipe', 'inherit'] });
    const server = new NameServer(child);
    await server.#lines.next();
    return server;
  }

  /** Every name has these addresses from now on. */
  async answer(...addresses: readonly string[]): Promise<void> {
    this.#child.stdin?.write(`${addresses.join(' ')}\n`);
    await this.#lines.next();
  }

  /** Answers no query from now on. */
  silence(): Promise<void> {
    return this.answer('silence');
  }
}
