/** Owns what a person's hands would do inside a device: listen, connect, send; told by lines of JSON, one answer each. */
import { createSocket, type Socket as Datagrams } from 'node:dgram';
import { connect, createServer, type Socket } from 'node:net';
import { createInterface } from 'node:readline';

export type Deed =
  /** Answers everything that comes to the port with its echo, at every address of the device. */
  | { readonly do: 'serve'; readonly protocol: 'tcp' | 'udp'; readonly port: number }
  /** Sends once and waits for the echo. */
  | {
      readonly do: 'ask';
      readonly protocol: 'tcp' | 'udp';
      readonly address: string;
      readonly port: number;
      /** Milliseconds; a bound on the wait for what may never come. */
      readonly patience: number;
      readonly localPort?: number;
      /** Bytes to send and to get back. */
      readonly size?: number;
    }
  /** Opens a connection and keeps it, under this name. */
  | {
      readonly do: 'hold';
      readonly name: string;
      readonly address: string;
      readonly port: number;
      readonly patience: number;
    }
  /** Says something over the kept connection and waits for its echo. */
  | { readonly do: 'say'; readonly name: string; readonly patience: number };

/** `open`: it came back. `closed`: nothing did. Else what the system said. */
export type Answer = string;

const held = new Map<string, Socket>();

const asked = (text: string): string => (text === '' ? 'closed' : text);
const codeOf = (error: Error): string =>
  'code' in error && typeof error.code === 'string' ? error.code : error.message;

/** What comes first: an answer, or the end of patience. */
function within(patience: number, work: (answer: (text: string) => void) => () => void): Promise<Answer> {
  return new Promise((resolve) => {
    let clean: () => void = () => {};
    const timer = setTimeout(() => done(''), patience);
    const done = (text: string): void => {
      clearTimeout(timer);
      resolve(asked(text));
      clean();
    };
    clean = work(done);
  });
}

function serve(protocol: 'tcp' | 'udp', port: number): Promise<Answer> {
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

function askTcp({ address, port, patience, localPort, size = 1 }: Deed & { readonly do: 'ask' }): Promise<Answer> {
  return within(patience, (answer) => {
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

function askUdp({ address, port, patience, localPort = 0, size = 1 }: Deed & { readonly do: 'ask' }): Promise<Answer> {
  return within(patience, (answer) => {
    const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4');
    socket.on('message', () => answer('open'));
    // What a closed outbound direction answers to a datagram is no failure of ours: nothing comes back.
    socket.on('error', (error) => answer(codeOf(error) === 'EPERM' ? '' : codeOf(error)));
    socket.bind(localPort, () => socket.send(Buffer.alloc(size, 0x2a), port, address, () => {}));
    return () => socket.close();
  });
}

function hold({ name, address, port, patience }: Deed & { readonly do: 'hold' }): Promise<Answer> {
  return within(patience, (answer) => {
    const socket = connect({ host: address, port, noDelay: true }, () => answer('open'));
    socket.on('error', (error) => answer(codeOf(error)));
    socket.on('close', () => held.delete(name));
    held.set(name, socket);
    return () => {};
  });
}

function say({ name, patience }: Deed & { readonly do: 'say' }): Promise<Answer> {
  return within(patience, (answer) => {
    const socket = held.get(name);
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

function perform(deed: Deed): Promise<Answer> {
  switch (deed.do) {
    case 'serve':
      return serve(deed.protocol, deed.port);
    case 'ask':
      return deed.protocol === 'tcp' ? askTcp(deed) : askUdp(deed);
    case 'hold':
      return hold(deed);
    case 'say':
      return say(deed);
    default:
      return deed satisfies never;
  }
}

/** Takes orders from stdin until it ends: `{"id": 1, "deed": {…}}`; answers `{"id": 1, "answer": "open"}`. */
export async function lendHands(): Promise<void> {
  for await (const line of createInterface({ input: process.stdin })) {
    const { id, deed } = JSON.parse(line) as { readonly id: number; readonly deed: Deed };
    void perform(deed).then((answer) => process.stdout.write(`${JSON.stringify({ id, answer })}\n`));
  }
  process.exit(0);
}
