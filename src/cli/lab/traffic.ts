/** Owns the traffic inside a lab device: listen, connect and send, requested by JSON lines with one answer each. */
import { createSocket, type Socket as Datagrams } from 'node:dgram';
import { connect, createServer, type Socket } from 'node:net';
import { createInterface } from 'node:readline';

export type TrafficRequest =
  /** Answers everything that comes to the port with its echo, at every address of the device. */
  | { readonly do: 'serve'; readonly protocol: 'tcp' | 'udp'; readonly port: number }
  /** Sends once and waits for the echo. */
  | {
      readonly do: 'probe';
      readonly protocol: 'tcp' | 'udp';
      readonly address: string;
      readonly port: number;
      /** Milliseconds; a bound on the wait for what may never come. */
      readonly timeoutMs: number;
      readonly localPort?: number;
      /** Bytes to send and to get back. */
      readonly size?: number;
    }
  /** Opens a connection and keeps it, under this name. */
  | {
      readonly do: 'connect';
      readonly name: string;
      readonly address: string;
      readonly port: number;
      readonly timeoutMs: number;
    }
  /** Sends something over the kept connection and waits for its echo. */
  | { readonly do: 'echo'; readonly name: string; readonly timeoutMs: number };

/** `open`: it came back. `closed`: nothing did. Else what the system said. */
export type TrafficResult = string;

const connections = new Map<string, Socket>();

const codeOf = (error: Error): string =>
  'code' in error && typeof error.code === 'string' ? error.code : error.message;

/** What comes first: an answer, or the end of the time. */
function firstAnswer(timeoutMs: number, work: (answer: (text: string) => void) => () => void): Promise<TrafficResult> {
  return new Promise((resolve) => {
    let clean: () => void = () => {};
    const timer = setTimeout(() => done(''), timeoutMs);
    const done = (text: string): void => {
      clearTimeout(timer);
      resolve(text === '' ? 'closed' : text);
      clean();
    };
    clean = work(done);
  });
}

function serve(protocol: 'tcp' | 'udp', port: number): Promise<TrafficResult> {
  return new Promise((resolve) => {
    const fail = (error: Error): void => resolve(codeOf(error));
    if (protocol === 'tcp') {
      createServer((socket) => socket.on('error', () => {}).pipe(socket))
        .on('error', fail)
        .listen(port, '::', () => resolve('open'));
      return;
    }
    const socket: Datagrams = createSocket('udp6');
    socket.on('message', (message, from) => socket.send(message, from.port, from.address, () => {}));
    socket.on('error', fail).bind(port, '::', () => resolve('open'));
  });
}

function probeTcp({
  address,
  port,
  timeoutMs,
  localPort,
  size = 1,
}: TrafficRequest & { readonly do: 'probe' }): Promise<TrafficResult> {
  return firstAnswer(timeoutMs, (answer) => {
    let heard = 0;
    const socket = connect({ host: address, port, ...(localPort === undefined ? {} : { localPort }) }, () =>
      socket.write(Buffer.alloc(size, 0x2a)),
    );
    socket.on('data', (part: Buffer) => {
      heard += part.length;
      if (heard >= size) answer('open');
    });
    socket.on('error', (error) => answer(codeOf(error)));
    return () => socket.destroy();
  });
}

function probeUdp({
  address,
  port,
  timeoutMs,
  localPort = 0,
  size = 1,
}: TrafficRequest & { readonly do: 'probe' }): Promise<TrafficResult> {
  return firstAnswer(timeoutMs, (answer) => {
    const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4');
    socket.on('message', () => answer('open'));
    // What a closed outbound direction answers to a datagram is no failure of ours: nothing comes back.
    socket.on('error', (error) => answer(codeOf(error) === 'EPERM' ? '' : codeOf(error)));
    socket.bind(localPort, () => socket.send(Buffer.alloc(size, 0x2a), port, address, () => {}));
    return () => socket.close();
  });
}

function open({ name, address, port, timeoutMs }: TrafficRequest & { readonly do: 'connect' }): Promise<TrafficResult> {
  return firstAnswer(timeoutMs, (answer) => {
    const socket = connect({ host: address, port, noDelay: true }, () => answer('open'));
    socket.on('error', (error) => answer(codeOf(error)));
    socket.on('close', () => connections.delete(name));
    connections.set(name, socket);
    return () => {};
  });
}

function exchange({ name, timeoutMs }: TrafficRequest & { readonly do: 'echo' }): Promise<TrafficResult> {
  return firstAnswer(timeoutMs, (answer) => {
    const socket = connections.get(name);
    if (socket === undefined) {
      answer('closed');
      return () => {};
    }
    const onData = (): void => answer('open');
    const onClose = (): void => answer('closed');
    socket.once('data', onData).once('close', onClose);
    socket.write('?');
    return () => socket.off('data', onData).off('close', onClose);
  });
}

function perform(request: TrafficRequest): Promise<TrafficResult> {
  switch (request.do) {
    case 'serve':
      return serve(request.protocol, request.port);
    case 'probe':
      return request.protocol === 'tcp' ? probeTcp(request) : probeUdp(request);
    case 'connect':
      return open(request);
    case 'echo':
      return exchange(request);
    default:
      return request satisfies never;
  }
}

/** Takes requests from stdin until it ends: `{"id": 1, "request": {…}}`; answers `{"id": 1, "answer": "open"}`. */
export async function serveTraffic(): Promise<void> {
  for await (const line of createInterface({ input: process.stdin })) {
    const { id, request } = JSON.parse(line) as { readonly id: number; readonly request: TrafficRequest };
    void perform(request).then((answer) => process.stdout.write(`${JSON.stringify({ id, answer })}\n`));
  }
  process.exit(0);
}
