/** Owns what the parts of the watch benchmark share: what they are given, what they give, and how they write and open streams. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Goal } from '../lib/goals.ts';
import type { Cell } from '../lib/table.ts';
import { Ours, type BenchDatabase, type OursOptions } from './ours.ts';
import type { Peer } from './peers.ts';
import { Load, type Security } from './tools.ts';

export interface Bench {
  readonly folder: string;
  readonly database: BenchDatabase;
  readonly program: string;
  readonly load: string;
  readonly floor: string;
  /** Files of a certificate and its key, for everybody who speaks TLS. */
  readonly tls: { readonly cert: string; readonly key: string };
}

export interface Part {
  readonly title: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly Cell[])[];
  readonly goals?: readonly Goal[];
}

export const documentBytes = 500;
export const ms = (ns: number): number => ns / 1e6;

export async function startOurs(
  bench: Bench,
  args: readonly string[] = [],
  security?: OursOptions['security'],
): Promise<Ours> {
  const databaseUrl = await bench.database.fresh();
  const { program, folder } = bench;
  return (await Ours.start({ program, folder, databaseUrl, args, ...(security && { security }) })).settle();
}

interface OpenOptions {
  readonly request?: Buffer;
  readonly security?: Security | undefined;
  readonly host?: string;
}

export const openLoad = (
  bench: Bench,
  peer: Peer,
  streams: number,
  { request = peer.request, security = peer.isSecured ? 'tls' : undefined, host }: OpenOptions = {},
): ReturnType<typeof Load.open> =>
  Load.open({
    program: bench.load,
    folder: bench.folder,
    protocol: peer.protocol,
    security,
    host,
    port: peer.port,
    streams,
    request,
    ready: peer.ready,
  });

/** So many changes as fast as the peer takes them. */
export async function concurrently(peer: Peer, changes: number): Promise<void> {
  if (peer.burst !== undefined) return peer.burst(changes, documentBytes);
  let left = changes;
  const work = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await peer.write(documentBytes);
    }
  };
  await Promise.all(Array.from({ length: peer.writers }, work));
}

/** Offers changes at a steady rate, in small groups every 20 ms; gives how many that were. */
export async function atRate(peer: Peer, perSecond: number, forMs: number): Promise<number> {
  const writes: Promise<unknown>[] = [];
  const began = Date.now();
  for (let sent = 0; Date.now() - began < forMs; await sleep(20)) {
    for (; sent < ((Date.now() - began) / 1_000) * perSecond; sent += 1) {
      writes.push(peer.offer?.(documentBytes) ?? peer.write(documentBytes));
    }
  }
  await Promise.all(writes);
  return writes.length;
}
