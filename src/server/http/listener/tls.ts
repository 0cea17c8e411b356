/** Owns the server's certificate: read at start, and read again while it runs, so that a renewed one is served without a restart. */
import { readFile } from 'node:fs/promises';
import { createSecureContext, type Server } from 'node:tls';

export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
}

export interface Pair {
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** Reads both files and makes sure that they belong together; throws otherwise. */
export async function readPair(files: TlsFiles): Promise<Pair> {
  const [cert, key] = await Promise.all([readFile(files.cert), readFile(files.key)]);
  createSecureContext({ cert, key });
  return { cert, key };
}

export interface RenewalOptions {
  readonly files: TlsFiles;
  readonly everyMs: number;
  readonly onRenewed: () => void;
  readonly onWarning: (message: string, cause: unknown) => void;
}

/**
 * Looks at the files now and then and puts a new pair in force for new connections. Content is compared, not times: files may be links that
 * are switched. A pair that does not fit, because only one file is written yet, leaves the old one in force. Returns what ends it.
 */
export function keepRenewed(server: Server, started: Pair, options: RenewalOptions): () => void {
  let current = started;
  let warned = '';
  let looking = false;
  const look = async (): Promise<void> => {
    try {
      const pair = await readPair(options.files);
      warned = '';
      if (pair.cert.equals(current.cert) && pair.key.equals(current.key)) return;
      server.setSecureContext(pair);
      current = pair;
      options.onRenewed();
    } catch (cause) {
      // Said once, not every few seconds.
      if (warned === String(cause)) return;
      warned = String(cause);
      options.onWarning('the certificate cannot be read anew; the one in force stays', cause);
    }
  };
  const timer = setInterval(() => {
    if (looking) return;
    looking = true;
    void look().finally(() => (looking = false));
  }, options.everyMs).unref();
  return () => clearInterval(timer);
}
