/** Owns what the store needs of the other processes of its server: a way to send them messages. */

/** Messages may be lost, when a process dies or does not read. */
export interface WorkerPeers {
  /** Sends all of them something that JSON can hold, without waiting. */
  send(message: unknown): void;
  /** Calls a listener with what they send, in the order in which each of them sent it. The last listener counts. */
  listen(listener: (message: unknown) => void): void;
}
