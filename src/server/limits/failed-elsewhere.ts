/** Owns the interface by which the processes of a server count failed credentials together. */

/** The server's other processes count failed credentials too. What one of them says may be lost when it dies. */
export interface FailedElsewhere {
  /** One failed here, from this address. */
  tell(address: string): void;
  /** Calls a listener with the address of each that failed at another process. */
  listen(listener: (address: string) => void): void;
}
