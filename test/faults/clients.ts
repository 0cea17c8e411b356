/** Owns the watchers of a fault run: each follows, stalls, breaks off, comes back to any server, and keeps all it was sent. */
import { connect, type Socket } from 'node:net';
import type { WatchKind } from '../../src/api/kinds.ts';
import type { UserId } from '../../src/policy/ids.ts';
import type { Connection, Received } from '../../src/server/watch/checker.fixture.ts';
import { parseLine } from '../../src/server/watch/sink.fixture.ts';
import type { Random } from '../lib/random.ts';
import { Decoder } from './decoder.ts';

export interface Surroundings {
  readonly org: string;
  /** Where a request may go to. */
  readonly servers: () => readonly string[];
  /** A revision known to be committed. */
  readonly committed: () => number;
  readonly random: Random;
  /** Called for a response other than 200, with the head that was known to be committed before the request. */
  readonly onRefused: (client: Watcher, status: number, items: readonly Item[], headBefore: number) => void;
}

export interface Item {
  readonly kind: WatchKind;
  readonly gt_revision?: number;
  readonly at_tail?: boolean;
}

/** It trusts a connection that is open, for however long: one that is neither answered nor closed would fail the run. */
export class Watcher {
  readonly name: string;
  readonly reader: UserId;
  readonly kinds: readonly WatchKind[];
  readonly connections: Connection[] = [];
  /** Answers by status, to see that a run met them. */
  refused = 0;
  readonly #token: string;
  readonly #around: Surroundings;
  #socket: Socket | undefined;
  #items: readonly Item[] = [];
  #headBefore = 0;
  #received: Received[] = [];
  #next: NodeJS.Timeout | undefined;
  #delay = 50;
  #over = false;

  constructor(options: {
    name: string;
    reader: UserId;
    token: string;
    kinds: readonly WatchKind[];
    around: Surroundings;
  }) {
    this.name = options.name;
    this.reader = options.reader;
    this.kinds = options.kinds;
    this.#token = options.token;
    this.#around = options.around;
  }

  get deliveries(): number {
    return this.connections.reduce((sum, one) => sum + one.received.length, this.#received.length);
  }

  /** The highest revision of a kind that it holds. */
  at(kind: WatchKind): number {
    return Math.max(lastOf(this.#items, this.#received, kind), 0);
  }

  get connected(): boolean {
    return this.#socket !== undefined;
  }

  open(items: readonly Item[] = this.#resumed()): void {
    if (this.#over) return;
    const server = new URL(this.#around.random.pick(this.#around.servers()));
    this.#items = items;
    this.#headBefore = this.#around.committed();
    this.#received = [];
    const body = JSON.stringify(items);
    const socket = connect({ host: server.hostname, port: Number(server.port) });
    this.#socket = socket;
    const only = this.kinds.length === 1 ? this.kinds[0] : undefined;
    const decoder = new Decoder({
      onStatus: (status) => this.#answered(status),
      onLine: (line) => this.#received.push(parseLine(line, only)),
    });
    socket.on('data', (chunk: Buffer) => decoder.take(chunk));
    socket.on('error', () => {});
    socket.on('close', () => this.#closed(socket));
    socket.write(
      `POST /api/organizations/${this.#around.org}/events HTTP/1.1\r\nHost: ${server.host}\r\n` +
        `Authorization: Bearer ${this.#token}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
  }

  /** Breaks the connection off, as a network does. */
  drop(): void {
    this.#socket?.destroy();
  }

  stall(ms: number): void {
    const socket = this.#socket;
    socket?.pause();
    setTimeout(() => socket?.resume(), ms);
  }

  /** Forgets everything and starts from nothing. */
  restart(): void {
    this.#afresh = true;
    this.drop();
  }
  #afresh = false;

  /** The end of the run: what has come, has come. */
  finish(complete = true): readonly Connection[] {
    if (this.#over) return this.connections;
    this.#over = true;
    clearTimeout(this.#next);
    this.#keep(complete);
    this.#socket?.destroy();
    return this.connections;
  }

  #answered(status: number): void {
    if (status === 200) {
      this.#delay = 50;
      return;
    }
    this.refused += 1;
    this.#around.onRefused(this, status, this.#items, this.#headBefore);
    // Gone: from nothing. Everything else passes.
    if (status === 410) this.#afresh = true;
    this.#items = this.#items.map(({ kind }) => ({ kind }));
    this.drop();
  }

  #closed(socket: Socket): void {
    if (this.#socket !== socket || this.#over) return;
    this.#socket = undefined;
    this.#keep(false);
    this.#delay = Math.min(this.#delay * 2, 1_000);
    this.#next = setTimeout(() => this.open(), this.#around.random.int(5, this.#delay));
  }

  /** A connection that received nothing proves nothing, and is not kept. */
  #keep(complete: boolean): void {
    if (this.#received.length === 0 && !complete) return;
    const { connections } = this;
    connections.push({ items: this.#items, headBefore: this.#headBefore, received: this.#received, complete });
    this.#received = [];
  }

  #resumed(): readonly Item[] {
    const last = this.connections.at(-1);
    if (this.#afresh || last === undefined) {
      this.#afresh = false;
      return this.kinds.map((kind) => ({ kind }));
    }
    return this.kinds.map((kind) => {
      const gt_revision = lastOf(last.items, last.received, kind);
      const started = last.items.find((item) => item.kind === kind);
      const tail = started?.at_tail === true || last.received.some((one) => one.type === 'tail' && one.kind === kind);
      return gt_revision === 0 ? { kind } : { kind, gt_revision, at_tail: tail };
    });
  }
}

function lastOf(items: readonly Item[], received: readonly Received[], kind: WatchKind): number {
  const started = items.find((item) => item.kind === kind)?.gt_revision ?? 0;
  return received.findLast((one) => one.kind === kind && one.type !== 'tail')?.revision ?? started;
}
