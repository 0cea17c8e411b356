/** Owns a fleet of devices in the load generator: each with a real stream and its own token, reporting what an agent would. */
import { Agent, request as send } from 'node:http';
import { connect, type Socket } from 'node:net';

export interface BenchDevice {
  readonly id: string;
  readonly token: string;
}

const inTurn = async <T>(items: readonly T[], at: number, work: (item: T) => Promise<void>): Promise<void> => {
  const queue = [...items];
  await Promise.all(
    Array.from({ length: at }, async () => {
      for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item);
    }),
  );
};

export class Fleet {
  readonly url: URL;
  readonly org: string;
  readonly devices: readonly BenchDevice[];
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 64 });
  readonly #sockets = new Set<Socket>();
  /** What each device says once it is asked. */
  status: object = { state: 'starting' };
  asked = 0;

  constructor(url: string, org: string, devices: readonly BenchDevice[]) {
    this.url = new URL(url);
    this.org = org;
    this.devices = devices;
  }

  /** Opens every stream; resolves when each has seen its tails. With other credentials they are streams of nobody's device. */
  connect(tokenOf: (device: BenchDevice, index: number) => string = ({ token }) => token): Promise<void> {
    return inTurn([...this.devices.entries()], 100, ([index, device]) => this.#open(device, tokenOf(device, index)));
  }

  /** Ends every stream. */
  disconnect(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
  }

  #open(device: BenchDevice, token: string): Promise<void> {
    // Nothing is listed: what an agent listed before does not belong to what is measured here.
    const body = JSON.stringify([{ kind: 'security-groups' }]);
    const head = [
      `POST /api/organizations/${this.org}/events HTTP/1.1`,
      `Host: ${this.url.host}`,
      `Authorization: Bearer ${token}`,
      'Content-Type: application/json',
      'Prefer: report-lines',
      `Content-Length: ${body.length}`,
    ];
    return new Promise((resolve, reject) => {
      const socket = connect({ host: this.url.hostname, port: Number(this.url.port) });
      this.#sockets.add(socket);
      let seen = '';
      socket.on('error', reject);
      socket.on('data', (chunk: Buffer) => {
        const text = chunk.toString('latin1');
        if (seen !== 'open') {
          seen += text;
          if (!seen.includes('"tail"')) return;
          seen = 'open';
          resolve();
        } else if (text.includes('"report"')) {
          this.asked += 1;
          void this.report(device);
        }
      });
      socket.write(`${head.join('\r\n')}\r\n\r\n${body}`);
    });
  }

  report(device: BenchDevice, status: object = this.status): Promise<void> {
    const body = JSON.stringify(status);
    return new Promise((resolve, reject) => {
      const request = send({
        agent: this.#agent,
        host: this.url.hostname,
        port: this.url.port,
        method: 'PUT',
        path: `/api/organizations/${this.org}/devices/${device.id}/status`,
        headers: {
          authorization: `Bearer ${device.token}`,
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
        },
      });
      request.on('error', reject);
      request.on('response', (answer) => {
        answer.resume();
        answer.on('end', () => (answer.statusCode === 200 ? resolve() : reject(new Error(String(answer.statusCode)))));
      });
      request.end(body);
    });
  }

  /** Everybody says something, as fast as the server takes it. */
  reportAll(status: object): Promise<void> {
    return inTurn(this.devices, 64, (device) => this.report(device, status));
  }

  close(): void {
    this.disconnect();
    this.#agent.destroy();
  }
}
