/**
 * Owns the operator who changes a group in `live`: in a thread of its own, over one persistent connection. The
 * operator's requests must not delay a device's connection to the server, which goes through a relay in the main thread
 * of this process.
 */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

/** Milliseconds of the clock `now`. */
export interface ChangeTimes {
  readonly asked: number;
  readonly answered: number;
}

const program = `
const { Agent, request } = require('node:https');
const { parentPort, workerData } = require('node:worker_threads');
const agent = new Agent({ keepAlive: true, maxSockets: 1, rejectUnauthorized: false });
const now = () => Number(process.hrtime.bigint()) / 1e6;
parentPort.on('message', ({ path, body }) => {
  const text = JSON.stringify(body);
  const headers = { authorization: 'Bearer ' + workerData.token, 'content-type': 'application/json', 'content-length': text.length };
  const asked = now();
  request(workerData.url + path, { method: 'PATCH', agent, headers }, (response) => {
    response.resume();
    response.on('end', () => parentPort.postMessage({ status: response.statusCode, asked, answered: now() }));
  }).end(text);
});`;

export class Operator {
  readonly #thread: Worker;

  constructor(url: string, token: string) {
    this.#thread = new Worker(program, { eval: true, workerData: { url, token } });
  }

  /** One at a time. */
  async changeGroup(organization: string, group: string, body: object): Promise<ChangeTimes> {
    // eslint-disable-next-line unicorn/require-post-message-target-origin -- a thread is no window
    this.#thread.postMessage({ path: `/api/organizations/${organization}/security_groups/${group}`, body });
    const [answer] = (await once(this.#thread, 'message')) as [ChangeTimes & { readonly status: number }];
    if (answer.status !== 200) throw new Error(`a change was answered with ${answer.status}`);
    return answer;
  }

  async end(): Promise<void> {
    await this.#thread.terminate();
  }
}
