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

/**
 * What TLS 1.2 may use: keys that are forgotten (ECDHE) and ciphers that authenticate (AEAD). No static RSA, no CBC. TLS 1.3 has its own list, which
 * holds nothing else.
 */
const ciphers = [
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'TLS_AES_128_GCM_SHA256',
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
].join(':');

/** What a certificate is served with, at start and when it is renewed. */
export const secureContextOf = (pair: Pair) => ({ ...pair, ciphers, minVersion: 'TLSv1.2' as const });

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
      server.setSecureContext(secureContextOf(pair));
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
