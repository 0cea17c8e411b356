/** Owns what a process knows of the other processes of its server: that they can be told something. */

/** What is sent may be lost: with a process that dies, and where one does not read. */
export interface WorkerPeers {
  /** Sends to all of them something that JSON can hold. Waits for nobody. */
  send(message: unknown): void;
  /** Calls a listener with what they send, in the order in which each of them sent it. The last listener counts. */
  listen(listener: (message: unknown) => void): void;
}
