/** Owns a proxy between client and server that a test can cut, hold still and point elsewhere: the network's bad days. */
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

export class Proxy {
  readonly #server: Server;
  readonly #pairs = new Set<readonly [Socket, Socket]>();
  #target: number;
  #refusing = false;
  #losing: { readonly request: RegExp; readonly parts: number[] } | undefined;
  /** Connections made so far. */
  count = 0;

  private constructor(target: number) {
    this.#target = target;
    this.#server = createServer((near) => this.#join(near));
  }

  static async start(to: string): Promise<Proxy> {
    const proxy = new Proxy(Number(new URL(to).port));
    await new Promise<void>((resolve) => {
      proxy.#server.listen(0, '127.0.0.1', resolve);
    });
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  #join(near: Socket): void {
    near.on('error', () => undefined);
    if (this.#refusing) {
      near.destroy();
      return;
    }
    this.count += 1;
    const far = connect(this.#target, '127.0.0.1');
    const pair = [near, far] as const;
    this.#pairs.add(pair);
    far.on('error', () => near.destroy());
    near.on('close', () => {
      far.destroy();
      this.#pairs.delete(pair);
    });
    far.on('close', () => near.end());
    let part: number | undefined;
    near.on('data', (chunk: Buffer) => {
      if (this.#losing?.request.test(chunk.toString()) === true) part = this.#losing.parts.shift();
    });
    far.on('data', (chunk: Buffer) => {
      if (part === undefined) return;
      near.write(chunk.subarray(0, part));
      near.destroySoon();
    });
    near.pipe(far, { end: false });
    far.pipe(near, { end: false });
  }

  /** New connections go there; those that are open stay where they are. */
  pointAt(to: string): void {
    this.#target = Number(new URL(to).port);
  }
  /** Breaks every connection in the middle of whatever it says. */
  cut(): void {
    for (const [near] of this.#pairs) near.resetAndDestroy();
  }
  /** Lets nothing through any more on the connections that are open, and does not tell anybody. */
  freeze(): void {
    for (const [near, far] of this.#pairs) {
      far.unpipe(near);
      far.pause();
    }
  }
  /** Loses answers to requests that begin like this: of the first answer so many bytes come through, of the second so many, and so on. */
  loseAnswers(request: RegExp, parts: readonly number[]): void {
    this.#losing = { request, parts: [...parts] };
  }
  /** How many answers are still to be lost. */
  get answersToLose(): number {
    return this.#losing?.parts.length ?? 0;
  }
  refuse(refusing: boolean): void {
    this.#refusing = refusing;
  }
  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => {
      this.#server.close(resolve);
    });
  }
}
