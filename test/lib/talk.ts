/** Owns the starting of real conversations between namespaces. */
import type { ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Namespace } from './netns.ts';

const script = fileURLToPath(new URL('talk.mjs', import.meta.url));

export interface Place {
  readonly namespace: Namespace;
  readonly protocol: 'tcp' | 'udp';
  readonly address: string;
  readonly port: number;
}

/** The one process inside a namespace that holds its conversations; it ends with its namespace. */
class Speaker {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, (text: string) => void>();
  #count = 0;

  constructor(namespace: Namespace) {
    this.#child = namespace.spawn([process.execPath, script], { stdio: ['pipe', 'pipe', 'inherit'] });
    if (this.#child.stdout === null) throw new Error('the speaker has no output');
    createInterface({ input: this.#child.stdout }).on('line', (line) => {
      const [, number = '', text = ''] = /^(\d+) (.*)$/.exec(line) ?? [];
      this.#answer(Number(number), text);
    });
    this.#child.stdin?.on('error', () => {}); // Told by its end.
    this.#child.once('close', (code, signal) => {
      for (const number of this.#waiting.keys()) this.#answer(number, `the speaker ended with ${code ?? signal}`);
    });
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  perform(order: object): Promise<string> {
    this.#count += 1;
    const number = this.#count;
    return new Promise((resolve) => {
      this.#waiting.set(number, resolve);
      this.#child.stdin?.write(`${JSON.stringify({ number, ...order })}\n`);
    });
  }

  #answer(number: number, text: string): void {
    this.#waiting.get(number)?.(text);
    this.#waiting.delete(number);
  }
}

const speakers = new WeakMap<Namespace, Speaker>();

function speakerIn(namespace: Namespace): Speaker {
  const known = speakers.get(namespace);
  if (known?.isRunning === true) return known;
  const speaker = new Speaker(namespace);
  speakers.set(namespace, speaker);
  return speaker;
}

/** Starts an echo server inside; resolves once it listens. It ends with its namespace. */
export async function serve({ namespace, ...place }: Place): Promise<void> {
  const answer = await speakerIn(namespace).perform({ role: 'serve', ...place });
  if (answer !== 'ready') throw new Error(`no ${place.protocol} server on ${place.address}: ${answer}`);
}

export interface EchoRequest extends Place {
  /** Bytes to send and to get back. */
  readonly size?: number;
  /** The asker's own port; any free one unless said otherwise. */
  readonly localPort?: number;
  /** The asker's own address, where it has several. */
  readonly from?: string;
  /** Milliseconds after which no answer is silence. Ample unless given: silence is proven elsewhere, by what the kernel noted. */
  readonly within?: number;
}

/** Asks the server at the place, from inside the namespace: `answered`, `silent` or what went wrong. */
export async function ask({
  namespace,
  size = 5,
  localPort = 0,
  within = 30_000,
  ...place
}: EchoRequest): Promise<string> {
  return speakerIn(namespace).perform({ role: 'ask', size, localPort, within, ...place });
}
