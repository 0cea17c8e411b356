/** Owns the interfaces for messages between processes: to all servers of a database, and to the other processes of one server. */

/**
 * Carries messages that the store does not read. They may be lost, and may arrive more than once. A message is a letter and text without spaces; the store's own hints use the
 * letters c, d, m, o and s.
 *
 * @example
 * broadcast.listen((message) => log.info(message));
 * broadcast.send([`r${org}`]);
 */
export interface Broadcast {
  /** Delivers to the listeners of this process at once, and to those of all other processes soon. */
  send(messages: readonly string[]): void;
  /** Returns what ends it. */
  listen(listener: (message: string) => void): () => void;
}

/** The other processes of this server. Messages may be lost, when a process dies or does not read. */
export interface WorkerPeers {
  /** Sends all of them something that JSON can hold, without waiting. */
  send(message: unknown): void;
  /** Calls a listener with what they send, in the order in which each of them sent it. The last listener counts. */
  listen(listener: (message: unknown) => void): void;
}

/** The newest timeline of the database that a process of this server has seen. A primary on an older one was replaced. */
export interface SharedTimeline {
  /** This process has seen it. */
  saw(timeline: number): void;
  /** Calls a listener with the newest so far, 0 where there is none, and then with each newer one. */
  listen(listener: (timeline: number) => void): void;
}
