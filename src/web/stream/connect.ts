/** Owns a page's way to the shared streams: in the worker of all pages, or, where there is none, in the page itself. */
import type { PageMessage, WorkerMessage } from './messages.ts';
import { SharedStreams } from './shared-streams.ts';

type Take = (message: WorkerMessage) => void;
type Post = (message: PageMessage) => void;

/** Chrome on Android has no shared workers. */
let isAlone = typeof SharedWorker === 'undefined';
let own: SharedStreams | undefined;

/** The page does without the worker from now on. */
export const followAlone = (): void => void (isAlone = true);

/** `onLost` is called if the worker could not be started. */
export function connect(take: Take, onLost: () => void): Post {
  // A page that leaves may be frozen at once: nothing may be left for later.
  if (isAlone) return (own ??= new SharedStreams({ graceTicks: 0 })).connect(take);
  const worker = new SharedWorker(new URL('./worker.ts', import.meta.url), { name: 'ringfence' });
  worker.addEventListener('error', onLost);
  const { port } = worker;
  port.addEventListener('message', ({ data }) => take(data as WorkerMessage));
  port.start();
  return (message) => port.postMessage(message);
}
