/**
 * Owns the check that notifications arrive where the server listens. A connection pooler that gives each transaction
 * another session accepts LISTEN, and then nothing arrives; nor does it from another database.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Runner } from './connection.ts';
import type { DatabaseConnection } from './database-connection.ts';
import type { Primary } from './primary.ts';

/** A way to listen that was given beside the usual one. */
export interface ListenWay {
  readonly at: Primary;
  /** The connections of other statements, through which others notify. */
  readonly ordinary: Runner;
  readonly newId: () => string;
}

const mostMs = 5_000;

export interface Arrival {
  /** Sends the notification, through another connection than the one that listens. */
  readonly notify: () => Promise<unknown>;
  readonly payload: string;
  /** Ends the wait. */
  readonly signal: AbortSignal;
}

/** Resolves when the notification has arrived; fails when it does not within five seconds. */
export async function checkArrival(
  { client }: DatabaseConnection,
  { notify, payload, signal }: Arrival,
): Promise<void> {
  const over = new AbortController();
  let arrive = (): void => {};
  const onNotification = (notification: { readonly payload?: string | undefined }): void => {
    if (notification.payload === payload) arrive();
  };
  const arrived = new Promise<void>((resolve, reject) => {
    arrive = resolve;
    client.on('notification', onNotification);
    client.once('end', () => reject(new Error('the connection was lost')));
    notify().catch(reject);
  });
  const ended = sleep(mostMs, undefined, { signal: AbortSignal.any([signal, over.signal]) }).then(() => {
    throw new Error(
      '--database-listen-url receives no notifications: it leads through a connection pooler that does not keep sessions apart, such as PgBouncer in transaction mode, or to another database',
    );
  });
  try {
    await Promise.race([arrived, ended]);
  } finally {
    over.abort();
    client.off('notification', onNotification);
    arrived.catch(() => {});
    ended.catch(() => {});
  }
}
