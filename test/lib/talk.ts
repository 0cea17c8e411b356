/** Owns the starting of real conversations between namespaces. */
import { fileURLToPath } from 'node:url';
import type { Namespace } from './netns.ts';

const script = fileURLToPath(new URL('talk.mjs', import.meta.url));

export interface Place {
  readonly namespace: Namespace;
  readonly protocol: 'tcp' | 'udp';
  readonly address: string;
  readonly port: number;
}

/** Starts an echo server inside; resolves once it listens. It ends with its namespace. */
export async function serve({ namespace, protocol, address, port }: Place): Promise<void> {
  const argv = [process.execPath, script, 'serve', protocol, address, String(port)];
  const child = namespace.spawn(argv, { stdio: ['ignore', 'pipe', 'inherit'] });
  await new Promise<void>((resolve, reject) => {
    child.stdout?.once('data', () => resolve());
    child.once('close', (code) => reject(new Error(`the ${protocol} server on ${address} ended with ${code}`)));
  });
}

export interface Question extends Place {
  /** Bytes to send and to get back. */
  readonly size?: number;
  /** The asker's own port; any free one unless said otherwise. */
  readonly localPort?: number;
}

/** Asks the server at the place, from inside the namespace: `answered`, `silent` or what went wrong. */
export async function ask({ namespace, protocol, address, port, size = 5, localPort = 0 }: Question): Promise<string> {
  const argv = [process.execPath, script, 'ask', protocol, address, String(port), String(size), String(localPort)];
  const { stdout } = await namespace.run(argv);
  return stdout.trim();
}
