/** Owns a fleet of devices in the load generator: each with a real stream and its own token, reporting what an agent would. */
import { connect, type Socket } from 'node:net';
import { connect as connectSecurely } from 'node:tls';
import type { Api, Json } from '../../test/lib/http.ts';

export interface BenchDevice {
  readonly id: string;
  readonly token: string;
}

/** Makes devices that have the group. */
export async function makeDevices(
  api: Pick<Api, 'expect'>,
  base: string,
  group: string,
  count: number,
): Promise<readonly BenchDevice[]> {
  const devices: BenchDevice[] = [];
  for (let from = 0; from < count; from += 50) {
    const made = await Promise.all(
      Array.from({ length: Math.min(50, count - from) }, (_, index) =>
        api.expect(201, 'POST', `${base}/devices`, {
          public_key: `key ${from + index}`,
          hostname: `host-${from + index}`,
          security_groups: [group],
        }),
      ),
    );
    devices.push(...made.map((one: Json) => ({ id: one.id, token: one.device_token })));
  }
  return devices;
}

/** Connections that reports go over: as many are under way at once as a fleet's would be, that each device has its own. */
const connections = 500;
/** Streams that are opened at a time. */
const opening = 100;

interface Report {
  readonly device: BenchDevice;
  readonly status: object;
  readonly resolve: () => void;
  readonly reject: (failure: Error) => void;
}

/** One connection for reports, each of which waits for its answer. Answers are short, and come whole. One that the server ended while it rested is opened anew. */
class Reporter {
  readonly #url: URL;
  readonly #next: () => Report | undefined;
  readonly #path: (device: BenchDevice) => string;
  #socket: Socket | undefined;
  #current: Report | undefined;

  constructor(url: URL, next: () => Report | undefined, path: (device: BenchDevice) => string) {
    this.#next = next;
    this.#path = path;
    this.#url = url;
  }

  #open(): Socket {
    const socket = connect({ host: this.#url.hostname, port: Number(this.#url.port), noDelay: true });
    socket.on('error', (failure) => this.#current?.reject(failure));
    socket.on('close', () => {
      this.#socket = undefined;
      this.#current?.reject(new Error('the connection of a report ended'));
    });
    socket.on('data', (chunk: Buffer) => {
      const answered = this.#current;
      this.#current = undefined;
      const head = chunk.toString('latin1', 0, 12);
      if (head === 'HTTP/1.1 200') answered?.resolve();
      else answered?.reject(new Error(head));
      this.go();
    });
    return socket;
  }

  go(): void {
    this.#current = this.#next();
    if (this.#current === undefined) return;
    const { device, status } = this.#current;
    const body = JSON.stringify(status);
    const head = `PUT ${this.#path(device)} HTTP/1.1\r\nHost: ${this.#url.host}\r\nAuthorization: Bearer ${device.token}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`;
    this.#socket ??= this.#open();
    this.#socket.write(`${head}\r\n\r\n${body}`);
  }

  close(): void {
    this.#socket?.destroy();
  }
}

export class Fleet {
  readonly url: URL;
  readonly org: string;
  readonly devices: readonly BenchDevice[];
  readonly #reporters: readonly Reporter[];
  readonly #idle: Reporter[];
  /** Reports to be made; those up to `#taken` have been. */
  #due: Report[] = [];
  #taken = 0;
  readonly #sockets = new Set<Socket>();
  /** What each device says once it is asked. */
  status: object = { state: 'starting' };
  asked = 0;
  /** Whether streams that carry signs of life show them. */
  showsSigns = true;
  /** The TLS session that streams resume, which spares the generator some work. */
  #session: Buffer | undefined;

  constructor(url: string, org: string, devices: readonly BenchDevice[]) {
    this.url = new URL(url);
    this.org = org;
    this.devices = devices;
    const path = ({ id }: BenchDevice): string => `/api/organizations/${org}/devices/${id}/status`;
    this.#reporters = Array.from({ length: connections }, () => {
      const reporter: Reporter = new Reporter(this.url, () => this.#take(reporter), path);
      return reporter;
    });
    this.#idle = [...this.#reporters];
  }

  #take(reporter: Reporter): Report | undefined {
    const report = this.#due[this.#taken];
    if (report !== undefined) this.#taken += 1;
    else {
      this.#idle.push(reporter);
      [this.#due, this.#taken] = [[], 0];
    }
    return report;
  }

  /**
   * Opens every stream; resolves when each has seen its tails. With other credentials the streams belong to no device.
   * `signEveryMs`: they are bidirectional and carry signs of life.
   */
  async connect(
    tokenOf: (device: BenchDevice, index: number) => string = ({ token }) => token,
    signEveryMs?: number,
  ): Promise<void> {
    const queue = [...this.devices.entries()];
    await Promise.all(
      Array.from({ length: opening }, async () => {
        for (let next = queue.shift(); next !== undefined; next = queue.shift())
          await this.#open(next[1], tokenOf(next[1], next[0]), signEveryMs);
      }),
    );
  }

  /** Ends every stream. */
  disconnect(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
  }

  /** A sign of life on a stream, again and again, for as long as it is open. */
  #sign(socket: Socket, everyMs: number): void {
    const signing = setInterval(() => this.showsSigns && socket.write('\n'), everyMs);
    socket.on('close', () => clearInterval(signing));
  }

  #connect(): Socket {
    const to = { host: this.url.hostname, port: Number(this.url.port) };
    if (this.url.protocol !== 'https:') return connect(to);
    // The certificate is the benchmark's own.
    const session = this.#session && { session: this.#session };
    return connectSecurely({ ...to, rejectUnauthorized: false, ...session }).once(
      'session',
      (fresh) => (this.#session = fresh),
    );
  }

  #open(device: BenchDevice, token: string, signEveryMs: number | undefined): Promise<void> {
    const twoWay = signEveryMs !== undefined;
    // Nothing is listed: what an agent listed before does not belong to what is measured here.
    const body = JSON.stringify([{ kind: 'security-groups' }]);
    const head = [
      `POST /api/organizations/${this.org}/events HTTP/1.1`,
      `Host: ${this.url.host}`,
      `Authorization: Bearer ${token}`,
      'Content-Type: application/json',
      `Prefer: report-lines${twoWay ? ', signs-of-life' : ''}`,
      ...(twoWay ? ['Connection: Upgrade', 'Upgrade: ringfence-watch'] : []),
      `Content-Length: ${body.length}`,
    ];
    return new Promise((resolve, reject) => {
      const socket = this.#connect();
      this.#sockets.add(socket);
      let seen = '';
      socket.on('error', reject);
      socket.on('data', (chunk: Buffer) => {
        if (seen !== 'open') {
          seen += chunk.toString('latin1');
          if (!seen.includes('"tail"')) return;
          seen = 'open';
          if (twoWay) this.#sign(socket, signEveryMs);
          resolve();
        } else if (chunk.includes('"report"')) {
          this.asked += 1;
          void this.report(device);
        }
      });
      socket.write(`${head.join('\r\n')}\r\n\r\n${body}`);
    });
  }

  report(device: BenchDevice, status: object = this.status): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#due.push({ device, status, resolve, reject });
      this.#idle.pop()?.go();
    });
  }

  /** Everybody says something, as fast as the server takes it. */
  async reportAll(status: object): Promise<void> {
    await Promise.all(this.devices.map((device) => this.report(device, status)));
  }

  close(): void {
    this.disconnect();
    for (const reporter of this.#reporters) reporter.close();
  }
}
