/** Owns TLS in benchmarks: a certificate for the addresses that they use, the options of a server that shows it, and clients that trust it. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { globalAgent } from 'node:https';
import { join } from 'node:path';
import { relayAddress } from '../../dev/lab/topology.ts';

export interface BenchTls {
  /** Files. */
  readonly cert: string;
  readonly key: string;
  readonly serverArguments: readonly string[];
  /** What makes a program trust it, as an operator would. */
  readonly environment: { readonly NODE_EXTRA_CA_CERTS: string };
}

/** Makes a certificate with a P-256 key in the folder. Node's HTTPS clients in this process trust it from now on. */
export function makeCertificate(folder: string): BenchTls {
  const [cert, key] = [join(folder, 'tls.crt'), join(folder, 'tls.key')];
  const names = `subjectAltName=DNS:localhost,IP:127.0.0.1,IP:${relayAddress.address}`;
  const kind = '-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=bench';
  const args = ['req', '-x509', ...kind.split(' '), '-addext', names, '-out', cert, '-keyout', key];
  const { status, stderr } = spawnSync('openssl', args);
  if (status !== 0) throw new Error(`openssl: ${stderr.toString()}`);
  globalAgent.options.ca = readFileSync(cert);
  return {
    cert,
    key,
    serverArguments: ['--tls-cert', cert, '--tls-key', key],
    environment: { NODE_EXTRA_CA_CERTS: cert },
  };
}
