/** Owns the server's certificate and the keys of its session tickets. Both can be replaced while the server runs. */
import { createPrivateKey, hkdfSync } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext, type Server } from 'node:tls';
import type { DueWork } from '../../scheduling/due-work.ts';

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

/** The groups of key exchange: each costs the server less than a millisecond. OpenSSL's own list also has finite fields, of which the largest takes 160. */
const cheapGroups = 'X25519:P-256:P-384';
const postQuantum = 'X25519MLKEM768';

/**
 * With the hybrid group where this Node knows it, so that who records traffic cannot wait for a quantum computer. Trying it out would be worse: OpenSSL
 * keeps the error, and the next use of a key fails with it.
 */
const [major = 0, minor = 0] = process.versions.openssl.split('.').map(Number);
const groups = major > 3 || (major === 3 && minor >= 5) ? `${postQuantum}:${cheapGroups}` : cheapGroups;

/** The secret behind the tickets of a period that all servers share. */
export interface TicketSecret {
  readonly secret: Buffer;
  readonly endsInMs: number;
}

/** How long one key encrypts tickets. A session may be resumed for as long, and no longer than the key lives. */
export const ticketPeriodMs = 12 * 3_600_000;

/**
 * The key of session tickets, as Node takes it. It needs both the private key and the period's secret: a thief of the private key cannot read recorded
 * TLS 1.2 connections, whose tickets hold their keys, and a reader of the database cannot read any. Servers with the same certificate and database have
 * the same key, however their key file is written.
 */
const ticketKeysOf = ({ key }: Pair, secret: Buffer): Buffer =>
  Buffer.from(
    hkdfSync(
      'sha256',
      secret,
      createPrivateKey(key).export({ format: 'der', type: 'pkcs8' }),
      'ringfence TLS session tickets',
      48,
    ),
  );

/** The TLS context of a certificate, at start and after renewal. */
export const secureContextOf = (pair: Pair, secret: Buffer) => ({
  ...pair,
  ciphers,
  ecdhCurve: groups,
  minVersion: 'TLSv1.2' as const,
  sessionTimeout: ticketPeriodMs / 1_000,
  ticketKeys: ticketKeysOf(pair, secret),
  // Node takes this from the command line otherwise, and refuses tickets of servers with another one.
  sessionIdContext: 'ringfence',
});

/** Reads both files and makes sure that they belong together; throws otherwise. */
export async function readPair(files: TlsFiles): Promise<Pair> {
  const [cert, key] = await Promise.all([readFile(files.cert), readFile(files.key)]);
  createSecureContext({ cert, key });
  return { cert, key };
}

export interface RenewalOptions {
  readonly files: TlsFiles;
  readonly everyMs: number;
  readonly ticketSecret: () => Promise<TicketSecret>;
  readonly onRenewed: () => void;
}

/**
 * Looks at the files now and then and puts a new pair in force for new connections. Content is compared, not times: files may be links that
 * are switched. A pair that does not fit, because only one file is written yet, leaves the old one in force. At the end of each period the next
 * period's ticket key replaces the one before: sessions of that one begin with a full handshake.
 */
export function renewals(
  server: Server,
  started: { readonly pair: Pair; readonly tickets: TicketSecret },
  { files, everyMs, ticketSecret, onRenewed }: RenewalOptions,
): readonly DueWork[] {
  let current = started.pair;
  let { secret } = started.tickets;
  const certificate: DueWork = {
    task: 'reload the certificate',
    firstMs: everyMs,
    async run() {
      const pair = await readPair(files);
      if (pair.cert.equals(current.cert) && pair.key.equals(current.key)) return everyMs;
      server.setSecureContext(secureContextOf(pair, secret));
      current = pair;
      onRenewed();
      return everyMs;
    },
  };
  const tickets: DueWork = {
    task: 'replace the key of TLS session tickets',
    firstMs: started.tickets.endsInMs,
    async run() {
      const next = await ticketSecret();
      secret = next.secret;
      server.setTicketKeys(ticketKeysOf(current, secret));
      return Math.max(next.endsInMs, 1);
    },
  };
  return [certificate, tickets];
}
