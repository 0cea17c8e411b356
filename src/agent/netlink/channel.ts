/**
 * Owns the channel to the kernel's netlink sockets: a helper process that starts when needed and handles one request
 * per socket at a time.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { endianness } from 'node:os';
import type { Clock } from '../../client/clock.ts';
import { helperEnvironment } from '../../node/helper-environment.ts';
import { noteAnswers, partOfListing } from './answers.ts';
import type { Batch } from './batch.ts';
import { FrameReader, headSize, sealFrame } from './frames.ts';
import { helperArgv } from './helper-script.ts';
import { controlType, errorNumber, flag, readMessages, writeMessages, type Message } from './message.ts';

export type ChannelErrorCode =
  /** The helper cannot be started here. */
  | 'missing'
  /** It ended in the middle. */
  | 'interrupted'
  /** The kernel did not answer in time. */
  | 'timed_out'
  /** The kernel refuses; `errno` says why. */
  | 'refused'
  | 'closed';

export class ChannelError extends Error {
  readonly code: ChannelErrorCode;
  readonly errno: number | undefined;
  constructor(code: ChannelErrorCode, message: string, { errno }: { readonly errno?: number } = {}) {
    super(message);
    this.code = code;
    this.errno = errno;
  }
}

export interface ChannelOptions {
  readonly clock: Clock;
  /** The command line that the helper is started through, such as one that enters a network namespace. */
  readonly prefix?: readonly string[];
  /** The helper itself. */
  readonly argv?: readonly string[];
  /** Milliseconds for an answer; 10 seconds unless given. */
  readonly timeout?: number;
}

/** One request, without its place in the order. */
export interface Request {
  readonly type: number;
  readonly flags?: number;
  readonly payload: Uint8Array;
}

interface PendingRequest {
  /** Sees the messages of its socket, as many as come at a time; true ends the question. */
  readonly hear: (messages: readonly Message[]) => boolean;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
  readonly cancel: () => void;
}

/** Requests of one write: few enough that their answers fit into the socket. */
const together = 1_024;
/** Listings of a protocol have a socket of their own beside that for all else: a long one holds nothing up. */
const listingSocket = (protocol: number): number => protocol | 0x20;
/** A helper that could not be started, or never answered, is not tried again before this many milliseconds. */
const restartAfter = 60_000;
/** Milliseconds for the first answer of a helper: one that hangs from its start must hold nothing up. */
const firstTimeout = 5_000;
const netfilter = 12;
/** Asks for the number of the packet filter's generation: any question would do that the kernel answers. */
const greeting: Request = { type: 0xa10, payload: new Uint8Array(4) };
const longestSaying = 300;

/**
 * It promises that questions are asked one after the other, in the order in which they were put, except that listings of each protocol
 * are an order of their own; that a question which fails leaves the channel usable, with a new helper if need be; and that no helper outlives
 * `close`.
 */
export class NetlinkChannel {
  readonly #options: Required<ChannelOptions>;
  readonly #pids = new Set<number>();
  #child: ChildProcess | undefined;
  /** The one that was started last, also after it was given up. */
  #latest: ChildProcess | undefined;
  #pid: number | undefined;
  #ended: Promise<void> = Promise.resolve();
  /** The end of a helper that was given up, while it has not ended. */
  #formerEnd: Promise<void> | undefined;
  /** Those that are open, by their sockets. */
  readonly #pending = new Map<number, PendingRequest>();
  #requests: Promise<unknown> = Promise.resolve();
  /** By their sockets. */
  readonly #listings = new Map<number, Promise<unknown>>();
  #sequence = 0;
  /** Milliseconds for an answer to what is asked now. */
  #timeout: number;
  #missingUntil = Number.NEGATIVE_INFINITY;
  /** Whether the helper that runs has answered anything. */
  #answers = false;
  /** Settles with the first answer of the helper that was started last, or with its end. */
  #greeted: Promise<unknown> = Promise.resolve();
  #closed = false;

  constructor(options: ChannelOptions) {
    this.#options = { prefix: [], argv: helperArgv, timeout: 10_000, ...options };
    this.#timeout = this.#options.timeout;
  }

  /** The helper that was started last. */
  get pid(): number | undefined {
    return this.#pid;
  }

  /** Whether the helper runs and has answered, so that a question need not wait for its start. */
  get running(): boolean {
    return this.#child !== undefined && this.#answers;
  }

  /**
   * Starts the helper and greets it, so that the first request finds it running. If it cannot be started, that request
   * fails.
   */
  start(): void {
    if (this.#closed || this.#child !== undefined || this.#formerEnd !== undefined) return;
    try {
      this.#running();
    } catch (error) {
      if (error instanceof ChannelError) return;
      throw error;
    }
    this.#greeted = this.send(netfilter, [greeting]).catch(() => {});
  }

  /** Like `running`, but waits for a helper that is starting, for at most so many milliseconds. */
  async isRunning(within: number): Promise<boolean> {
    if (this.#child === undefined || this.#answers) return this.running;
    let cancel = (): void => {};
    const late = new Promise<void>((resolve) => (cancel = this.#options.clock.after(within, resolve)));
    await Promise.race([this.#greeted, late]);
    cancel();
    return this.running;
  }

  /** Whether the process, as the kernel names the author of a change, is one of this channel. */
  owns(process: number): boolean {
    return this.#pids.has(process);
  }

  /**
   * Sends the requests, many at a time, and answers with the kernel's error number for each; 0 where it was done. `visit` sees what
   * the kernel answers to each besides, during the call.
   */
  send(
    protocol: number,
    requests: readonly Request[],
    visit: (index: number, message: Message) => void = () => {},
  ): Promise<readonly number[]> {
    return this.#inTurn(async () => {
      const numbers = Array.from(requests, () => 0);
      for (let at = 0; at < requests.length; at += together) {
        const part = requests.slice(at, at + together);
        const first = this.#take(part.length);
        const last = first + part.length - 1;
        // The kernel acknowledges only the last message: its acknowledgement shows that all were processed.
        const messages = part.map(({ type, flags = 0, payload }, i) => {
          const ack = first + i === last ? flag.ack : 0;
          return { type, flags: flags | flag.request | ack, sequence: first + i, payload };
        });
        await this.#ask(protocol, messages, (answers) => noteAnswers(answers, { first, last, at, numbers, visit }));
      }
      return numbers;
    });
  }

  /**
   * Asks for a listing and sees its messages, as many as come at a time: other questions are answered meanwhile. Their payloads are only good
   * during the call.
   */
  dump(protocol: number, { type, payload }: Request, visit: (part: readonly Message[]) => void): Promise<void> {
    if (this.#closed) return Promise.reject(closed());
    const socket = listingSocket(protocol);
    const work = async (): Promise<void> => {
      const sequence = this.#take(1);
      const question = { type, flags: flag.request | flag.dump, sequence, payload };
      let failed: number | undefined;
      await this.#ask(socket, [question], (messages) => {
        const { part, end } = partOfListing(messages, sequence);
        if (part.length > 0) visit(part);
        if (end?.type === controlType.error) failed = errorNumber(end);
        return end !== undefined;
      });
      if (failed !== undefined) throw refusal(failed);
    };
    const result = (this.#listings.get(socket) ?? Promise.resolve()).then(work);
    this.#listings.set(
      socket,
      result.catch(() => {}),
    );
    return result;
  }

  /**
   * Sends the batch, which is one transaction. Resolves when the kernel has committed it; rejects with `refused` where it has not, and then
   * nothing has changed. `timeout`, in milliseconds, is for what a large one takes.
   */
  transact(protocol: number, batch: Batch, timeout = this.#options.timeout): Promise<void> {
    return this.#inTurn(async () => {
      // Listings that are asked for meanwhile wait for it in the helper.
      this.#timeout = Math.max(timeout, this.#options.timeout);
      const first = this.#take(batch.messages);
      const pieces = batch.seal(protocol, first);
      const last = first + batch.messages - 2;
      let failed: number | undefined;
      const hear = (answers: readonly Message[]): boolean => {
        for (const answer of answers) {
          if (answer.type !== controlType.error || answer.sequence < first || answer.sequence > last + 1) continue;
          const number = errorNumber(answer);
          // The kernel reports errors after it has undone the whole batch. Of very many errors it may report only the
          // first ones.
          if (number !== 0) failed ??= number;
          if (number !== 0 || answer.sequence === last) return true;
        }
        return false;
      };
      await this.#put(protocol, pieces, hear).finally(() => (this.#timeout = this.#options.timeout));
      if (failed !== undefined) throw refusal(failed);
    });
  }

  /** Ends the helper. Later calls fail with `closed`. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#child !== undefined && !this.#answers) this.#giveUp(this.#child, closed());
    await Promise.all([this.#requests, ...this.#listings.values()]);
    this.#child?.stdin?.end();
    this.#latest?.kill('SIGKILL');
    // What the helper itself started may hold these open.
    for (const output of [this.#latest?.stdout, this.#latest?.stderr]) output?.destroy();
    await this.#ended;
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closed) return Promise.reject(closed());
    const result = this.#requests.then(work);
    this.#requests = result.catch(() => {});
    return result;
  }

  /** So many numbers in a row that no earlier request had; the kernel's own messages have 0. */
  #take(count: number): number {
    if (this.#sequence + count > 0xffff_ffff) this.#sequence = 0;
    const first = this.#sequence + 1;
    this.#sequence += count;
    return first;
  }

  #ask(socket: number, messages: readonly Message[], hear: PendingRequest['hear']): Promise<void> {
    return this.#put(socket, [sealFrame(writeMessages(messages, headSize), socket)], hear);
  }

  /** Writes a frame, in these pieces, and waits for its answer. */
  #put(socket: number, frame: readonly Uint8Array[], hear: PendingRequest['hear']): Promise<void> {
    const former = this.#formerEnd;
    return former === undefined || this.#isMissing
      ? this.#write(socket, frame, hear)
      : this.#waitForEnd(former).then(() => this.#write(socket, frame, hear));
  }

  /** No new helper starts before a given-up one has ended: its last request may still take effect. */
  #waitForEnd(end: Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      const cancel = this.#options.clock.after(this.#timeout, () =>
        reject(new ChannelError('timed_out', 'the netlink helper does not answer and cannot be stopped')),
      );
      void end.then(() => {
        cancel();
        resolve();
      });
    });
  }

  #write(socket: number, frame: readonly Uint8Array[], hear: PendingRequest['hear']): Promise<void> {
    return new Promise((resolve, reject) => {
      try {
        const child = this.#running();
        const cancel = this.#options.clock.after(
          this.#answers ? this.#timeout : Math.min(this.#timeout, firstTimeout),
          () => this.#giveUp(child, new ChannelError('timed_out', 'the kernel did not answer over netlink')),
        );
        this.#pending.set(socket, { hear, resolve, reject, cancel });
        if (frame.length > 1) child.stdin?.cork();
        for (const piece of frame) child.stdin?.write(piece);
        if (frame.length > 1) child.stdin?.uncork();
      } catch (error) {
        reject(error);
      }
    });
  }

  get #isMissing(): boolean {
    return this.#options.clock.now() < this.#missingUntil;
  }

  #running(): ChildProcess {
    if (this.#child !== undefined) return this.#child;
    const { prefix, argv, clock } = this.#options;
    if (this.#isMissing || endianness() !== 'LE') {
      throw new ChannelError('missing', 'the netlink helper cannot be started');
    }
    const [command = '', ...args] = [...prefix, ...argv];
    const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'], env: helperEnvironment });
    const frames = new FrameReader();
    let said = '';
    let heard = false;
    this.#child = this.#latest = child;
    this.#answers = false;
    // The one before may still be named as an author by events that are under way; older ones may have other owners by now.
    const [before, { pid }] = [this.#pid, child];
    this.#pid = pid;
    this.#pids.clear();
    for (const own of [before, pid]) if (own !== undefined) this.#pids.add(own);
    child.stdin.on('error', () => {}); // A process that is gone shows by its end.
    child.stdout.on('data', (chunk: Uint8Array) => {
      heard = true;
      if (this.#child === child) this.#answers = true;
      this.#hear(child, frames, chunk);
    });
    child.stderr.setEncoding('utf8').on('data', (words: string) => (said = `${said}${words}`.slice(0, longestSaying)));
    this.#ended = new Promise((resolve) => {
      const end = (code: ChannelErrorCode, why: string): void => {
        if (this.#child === child) this.#child = undefined;
        this.#formerEnd = undefined;
        if (code === 'missing') this.#missingUntil = clock.now() + restartAfter;
        this.#fail(new ChannelError(code, why));
        resolve();
      };
      child.once('error', (error) => end('missing', `the netlink helper cannot be started: ${error.message}`));
      child.once('close', (code, signal) => {
        const reason = said.trim() === '' ? '' : `: ${said.trim()}`;
        const why = `the netlink helper exited with ${signal ?? `code ${code}`}${reason}`;
        // One that ends by itself before it has given anything does not work here: no interpreter, or no right to a socket.
        end(heard || signal !== null ? 'interrupted' : 'missing', why);
      });
    });
    return child;
  }

  #hear(child: ChildProcess, frames: FrameReader, chunk: Uint8Array): void {
    if (this.#child !== child) return;
    let asked = Number.NaN;
    try {
      for (const { socket, bytes } of frames.push(chunk)) {
        asked = socket;
        if (this.#pending.get(socket)?.hear(readMessages(bytes)) === true) this.#settle(socket)?.resolve();
      }
    } catch (error) {
      // What is left of the answer is not waited for: a new helper has a new socket.
      this.#settle(asked)?.reject(error);
      this.#giveUp(child, new ChannelError('interrupted', 'the netlink helper sent an invalid answer'));
    }
  }

  #settle(socket: number): PendingRequest | undefined {
    const pending = this.#pending.get(socket);
    this.#pending.delete(socket);
    pending?.cancel();
    return pending;
  }

  /** The next question is for another helper, once this one has ended. */
  #giveUp(child: ChildProcess, error: ChannelError): void {
    if (this.#child === child) {
      if (!this.#answers) this.#missingUntil = this.#options.clock.now() + restartAfter;
      this.#child = undefined;
      this.#formerEnd = this.#ended;
    }
    child.kill('SIGKILL');
    this.#fail(error);
  }

  /** All that are open: there is one helper for all of them. */
  #fail(error: ChannelError): void {
    for (const socket of this.#pending.keys()) this.#settle(socket)?.reject(error);
  }
}

const closed = (): ChannelError => new ChannelError('closed', 'the netlink channel is closed');
const refusal = (errno: number): ChannelError =>
  new ChannelError('refused', `the kernel refuses a request over netlink (error ${errno})`, { errno });
