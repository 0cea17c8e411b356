/** Owns what a peer of the watch benchmark is, a program that pushes one change to many, and the least such program: the floor. */
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort, marker, nowNs, processor, root, Talker, type Protocol } from './tools.ts';

/** Moments, in nanoseconds. */
export interface Written {
  readonly sent: number;
  readonly acknowledged: number;
}

export interface Peer {
  readonly name: string;
  readonly pid: number;
  readonly protocol: Protocol;
  readonly port: number;
  /** What opens a stream, and the text that says it is open. */
  readonly request: Buffer;
  readonly ready: string;
  /** How many writes may be under way when as many as possible are wanted. */
  readonly writers: number;
  /** Its streams come over TLS. */
  readonly isSecured?: boolean;
  /** Further programs that a delivery passes, such as a proxy. */
  readonly alsoPids?: readonly number[];
  /** It has nothing but its streams: a write costs nothing besides the deliveries. */
  readonly isFloor?: true;
  /** Makes ready for many writes at once. */
  crowd?(): Promise<void>;
  /** Writes so many at once, where that is not just so many writes. */
  burst?(documents: number, bytes: number): Promise<void>;
  /** Writes one that is due while others may be under way, where that is not just one more write. */
  offer?(bytes: number): Promise<void>;
  /** Writes one document of about this many bytes. */
  write(bytes: number): Promise<Written>;
  stop(): Promise<void>;
}

/** All programs that a peer consists of. */
export const pidsOf = ({ pid, alsoPids = [] }: Peer): readonly number[] => [pid, ...alsoPids];

/** A document's text: its marker, filled up. */
export const payload = (bytes: number): string => marker().padEnd(bytes, 'x');

/** A connection to a program that may take some seconds to listen. */
export async function reached(port: number, program: Talker): Promise<Socket> {
  for (let i = 0; ; i += 1) {
    const socket = connect(port, '127.0.0.1');
    const up = await new Promise<boolean>((resolve) => {
      socket.once('connect', () => resolve(true));
      socket.once('error', () => resolve(false));
    });
    if (up) return socket.on('error', () => {});
    if (program.over !== undefined) throw program.over;
    if (i > 200) throw new Error(`nobody listens on ${port}`);
    await sleep(50);
  }
}

/**
 * What is under all: a C program that writes the same bytes to every socket, by `send` or, as libuv and so Node must, by `write`; and the least that does it on Node.
 * With TLS: the same C program through OpenSSL, and plain `socket.write` of Node's `tls`.
 */
export const floors = {
  send: 'floor (C)',
  write: 'floor by write (C)',
  node: 'floor of Node',
  tls: 'floor with TLS (C, OpenSSL)',
  'node-tls': 'bare Node tls',
} as const;

export async function startFloor(
  program: string,
  streams: number,
  by: keyof typeof floors = 'send',
  tls?: { readonly cert: string; readonly key: string },
): Promise<Peer> {
  const port = await freePort();
  const command = by.startsWith('node') ? [process.execPath, join(root, 'bench/watch/floor.mjs')] : [program];
  const how = tls === undefined ? [by] : ['tls', tls.cert, tls.key];
  const talker = new Talker([...command, String(port), String(streams), ...how], processor.server);
  await talker.hears('listening');
  const waiting: string[] = [];
  let round: Promise<void> | undefined;
  /** What came during a round goes out with the next. */
  const takeRounds = async (bytes: number): Promise<void> => {
    while (waiting.length > 0) {
      talker.say(`stamped ${bytes} ${waiting.splice(0).join(' ')}`);
      await talker.hears('sent');
    }
    round = undefined;
  };
  return {
    name: floors[by],
    pid: talker.pid,
    isFloor: true,
    isSecured: tls !== undefined,
    protocol: 'http',
    port,
    writers: 1,
    request: Buffer.from('POST / HTTP/1.1\r\n\r\n'),
    ready: '"tail"',
    async write(bytes) {
      talker.say(`send 1 ${bytes}`);
      const sent = Number((await talker.hears('sent')).split(' ')[1]);
      return { sent, acknowledged: sent };
    },
    offer(bytes) {
      waiting.push(nowNs().toString(16));
      return (round ??= takeRounds(bytes));
    },
    async burst(documents, bytes) {
      for (let left = documents; left > 0; left -= 50) {
        talker.say(`send ${Math.min(50, left)} ${bytes}`);
        await talker.hears('sent');
      }
    },
    stop: () => talker.stop('SIGKILL'),
  };
}
