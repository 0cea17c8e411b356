/**
 * Owns the worker thread that computes digests of large policies: its requests and its answers. The server imports this
 * file only for its URL.
 */
import { isMainThread, parentPort, workerData, type MessagePort } from 'node:worker_threads';
import { Fleet } from '../../policy/fleet/fleet.ts';
import type { DeviceIdentity } from '../../policy/fleet/identity.ts';
import { digestOf, type DigestGroup, type WantedPolicy } from './digest-job.ts';

/** In this order: devices, all of them again after `forget`; then groups; then the question. */
export type ToThread =
  | { readonly type: 'forget' }
  | { readonly type: 'devices'; readonly devices: readonly DeviceIdentity[] }
  | { readonly type: 'group'; readonly group: DigestGroup }
  | ({ readonly type: 'digest' } & Omit<WantedPolicy, 'groups'>);

export type FromThread = { readonly digest: string | undefined } | { readonly failure: string };

/** The worker data that marks this thread; the file does nothing in any other thread. */
export const threadName = 'ringfence-digests';

/** The URL of this file, which starts the thread. */
export const entryUrl = import.meta.url;

function serve(port: MessagePort): void {
  let fleet = new Fleet();
  let groups: DigestGroup[] = [];
  const answer = (wanted: Omit<WantedPolicy, 'groups'>): FromThread => {
    try {
      return { digest: digestOf({ ...wanted, groups }, fleet) };
    } catch (error) {
      return { failure: error instanceof Error ? error.message : String(error) };
    } finally {
      groups = [];
      // Drops the names that this digest looked up.
      fleet.keepOnly([]);
    }
  };
  port.on('message', (message: ToThread) => {
    switch (message.type) {
      case 'forget':
        fleet = new Fleet();
        return;
      case 'devices':
        for (const device of message.devices) fleet.set(device);
        return;
      case 'group':
        groups.push(message.group);
        return;
      case 'digest':
        port.postMessage(answer(message));
        return;
      default:
        message satisfies never;
    }
  });
}

if (!isMainThread && parentPort !== null && workerData === threadName) serve(parentPort);
