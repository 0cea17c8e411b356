/** Asks a server who it is, again and again, in a thread of its own: what the test does meanwhile makes it wait no longer. */
import { readFileSync } from 'node:fs';
import { Agent, get } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';

const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort);
const { url, token, pid, everyMs } = workerData;
const agent = new Agent({ keepAlive: true });
const loopMs = () => Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
let worst = { loopMs: 0, ms: 0, asked: 0, refused: 0 };
const state = { stopped: false };

port.on('message', (what) => {
  if (what === 'stop') state.stopped = true;
  else {
    port.postMessage(worst);
    worst = { loopMs: 0, ms: 0, asked: 0, refused: 0 };
  }
});

const ask = () =>
  new Promise((resolve) => {
    get(`${url}/api/users/me`, { agent, headers: { authorization: `Bearer ${token}` } }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode));
    }).on('error', () => resolve(0));
  });

while (!state.stopped) {
  const [loop, at] = [loopMs(), performance.now()];
  const status = await ask();
  worst = {
    loopMs: Math.max(worst.loopMs, loopMs() - loop),
    ms: Math.max(worst.ms, performance.now() - at),
    asked: worst.asked + 1,
    refused: worst.refused + (status === 200 ? 0 : 1),
  };
  await sleep(everyMs);
}
agent.destroy();
port.close();
