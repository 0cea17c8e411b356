/** Owns the honest load of the soak: people and agents that read, write and follow, on a fixed schedule, whatever the server does. */
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Api } from '../../test/lib/http.ts';

export interface World {
  readonly url: string;
  readonly org: string;
  /** Of members; the first may change the devices. */
  readonly tokens: readonly string[];
  readonly devices: readonly string[];
  readonly group: string;
}

/** Follows an organization's devices, and keeps nothing of what it reads but what it waits for. */
class Follower {
  readonly #socket: Socket;
  readonly #awaited = new Map<string, () => void>();
  #rest = '';
  closed = false;

  constructor({ url, org }: World, token: string) {
    const { hostname, port } = new URL(url);
    const body = '[{"kind":"device"}]';
    this.#socket = connect(Number(port), hostname)
      .on('error', () => {})
      .on('close', () => (this.closed = true))
      .on('data', (chunk: Buffer) => this.#read(chunk.toString('latin1')));
    this.#socket.write(
      `POST /api/organizations/${org}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
  }

  #read(text: string): void {
    const whole = this.#rest + text;
    for (const [name] of whole.matchAll(/"(?:tail|host \d+\.)"/g)) {
      this.#awaited.get(name)?.();
      this.#awaited.delete(name);
    }
    this.#rest = whole.slice(-40);
  }

  /** Resolves when this comes; false when it does not within ten seconds. To be called before it can come. */
  sees(name: string): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), 10_000);
      this.#awaited.set(`"${name}"`, () => {
        clearTimeout(timer);
        resolve(true);
      });
    });
  }

  close(): void {
    this.#socket.destroy();
  }
}

/** What one slice of time has shown. */
export class Slice {
  readonly times: number[] = [];
  readonly deliveries: number[] = [];
  readonly failures: string[] = [];
}

export class HonestLoad {
  readonly #world: World;
  readonly #apis: readonly Api[];
  readonly #streams: Follower[] = [];
  #slice = new Slice();
  #stopped = false;
  #loop: Promise<void> = Promise.resolve();
  #count = 0;

  constructor(world: World) {
    this.#world = world;
    this.#apis = world.tokens.map((token) => new Api(world.url, token));
  }

  /** Opens the streams and begins; what comes before the first slice is not counted. */
  async start(options: { readonly perSecond: number; readonly streams: number }): Promise<void> {
    const { tokens } = this.#world;
    for (let i = 0; i < options.streams; i += 1) {
      this.#streams.push(new Follower(this.#world, tokens[i % tokens.length] ?? ''));
    }
    const tails = await Promise.all(this.#streams.map((stream) => stream.sees('tail')));
    if (tails.includes(false)) throw new Error('a stream did not begin');
    this.#loop = this.#run(1_000 / options.perSecond);
  }

  /** From now on everything counts into this one. */
  begin(): Slice {
    this.#slice = new Slice();
    return this.#slice;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#loop;
    for (const stream of this.#streams) stream.close();
    for (const api of this.#apis) api.close();
  }

  /** How many of its streams the server has ended, which it must not. */
  get lost(): number {
    return this.#streams.filter((stream) => stream.closed).length;
  }

  async #run(everyMs: number): Promise<void> {
    const flying = new Set<Promise<void>>();
    for (let due = performance.now(); !this.#stopped; due += everyMs) {
      const wait = due - performance.now();
      if (wait > 0) await sleep(wait);
      // From when it was due: a server that makes one wait makes the next wait too.
      const one = this.#ask(due, this.#slice).finally(() => flying.delete(one));
      flying.add(one);
    }
    await Promise.all(flying);
  }

  async #ask(due: number, slice: Slice): Promise<void> {
    this.#count += 1;
    const { org, devices, group } = this.#world;
    const api = this.#apis[this.#count % this.#apis.length];
    const device = devices[this.#count % devices.length] ?? '';
    const base = `/api/organizations/${org}`;
    if (api === undefined) return;
    try {
      const kind = this.#count % 10;
      if (kind < 4) await api.expect(200, 'GET', `${base}/devices/${device}`);
      else if (kind < 7) await api.expect(200, 'GET', `${base}/security_groups/${group}`);
      else if (kind < 8) await api.expect(200, 'GET', `${base}/devices?limit=20`);
      else await this.#write(`${base}/devices/${device}`, slice);
      slice.times.push(performance.now() - due);
    } catch (error) {
      slice.failures.push(error instanceof Error ? error.message.slice(0, 200) : String(error));
    }
  }

  /** A write, and the time until one of the streams shows it. */
  async #write(path: string, slice: Slice): Promise<void> {
    const stream = this.#streams[this.#count % this.#streams.length];
    const hostname = `host ${this.#count}.`;
    const begun = performance.now();
    void stream?.sees(hostname).then((seen) => {
      if (seen) slice.deliveries.push(performance.now() - begun);
      else slice.failures.push(`${hostname} was not delivered`);
    });
    await this.#apis[0]?.expect(200, 'PATCH', path, { hostname });
  }
}
