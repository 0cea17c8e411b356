/** Owns the agent's unix socket: HTTP for users who may read the state directory only. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createServer, request } from '../../node/http.ts';
import { metricsContentType } from './metrics.ts';
import type { StatusDocument } from './status-document.ts';

export const socketPath = (state: string): string => join(state, 'agent.sock');

export interface StatusAnswers {
  readonly status: () => Promise<StatusDocument>;
  readonly metrics: () => Promise<string>;
}

export interface StatusSocket {
  close(): Promise<void>;
}

/**
 * Listens until it is closed. The caller holds the lock on the state directory, so an existing socket is a leftover.
 * The caller has also set a umask that leaves the socket to its owner.
 */
export async function openStatusSocket(state: string, { status, metrics }: StatusAnswers): Promise<StatusSocket> {
  const path = socketPath(state);
  const server = createServer((asked, answer) => {
    const route = `${asked.method} ${asked.url?.split('?')[0]}`;
    asked.resume();
    answer.setHeader('connection', 'close');
    const send = (type: string, text: Promise<string>): void => {
      text.then(
        (whole) => answer.setHeader('content-type', type).end(whole),
        () => answer.destroy(),
      );
    };
    if (route === 'GET /status') {
      send(
        'application/json',
        status().then((document) => `${JSON.stringify(document)}\n`),
      );
    } else if (route === 'GET /metrics') {
      send(metricsContentType, metrics());
    } else {
      answer.statusCode = 404;
      answer.end('use /status or /metrics\n');
    }
  });
  await rm(path, { force: true });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, () => {
      server.off('error', reject);
      resolve();
    });
  });
  // A late fault of the socket is no reason to end: enforcement does not need it.
  server.on('error', () => {});
  server.unref();
  return {
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Thrown where the agent gives no answer. */
export class NoAnswer extends Error {
  readonly code: 'not_running' | 'not_permitted' | 'failed';
  constructor(code: NoAnswer['code'], message: string) {
    super(message);
    this.code = code;
  }
}

const timeout = 10_000;

/** Asks the agent that runs with this state directory. Throws `NoAnswer`. */
export function askStatus(state: string): Promise<StatusDocument> {
  return new Promise((resolve, reject) => {
    const fail = (error: NodeJS.ErrnoException): void => {
      const absent = error.code === 'ENOENT' || error.code === 'ECONNREFUSED' || error.code === 'ENOTDIR';
      const code = absent ? 'not_running' : error.code === 'EACCES' ? 'not_permitted' : 'failed';
      reject(new NoAnswer(code, error.message));
    };
    const sent = request({ socketPath: socketPath(state), path: '/status', timeout }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
      answer.on('error', fail);
      answer.on('end', () => {
        try {
          resolve(JSON.parse(text) as StatusDocument);
        } catch (error) {
          fail(error as Error);
        }
      });
    });
    sent.on('timeout', () => sent.destroy(new Error('the agent does not answer')));
    sent.on('error', fail);
    sent.end();
  });
}
