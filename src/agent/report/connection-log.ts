/** Owns the log lines about the connection: each problem once, regardless of how often the agent retries. */
import type { Log } from '../host/log.ts';
import type { Connection } from '../source/policy-source.ts';

/** Gets every state of the connection, and logs what is new for a person. */
export function connectionLog(log: Log): (connection: Connection) => void {
  /** The kinds of trouble logged since the stream was last live: two may take turns, and one has many words. */
  const logged = new Set<string>();
  let live = false;
  return ({ phase, lastError }) => {
    if (phase === 'live') {
      if (!live) log('info', logged.size === 0 ? 'connected to the server' : 'connected to the server again');
      live = true;
      logged.clear();
      return;
    }
    if (phase !== 'waiting' || lastError === undefined) return;
    const kind = lastError.kind ?? lastError.message;
    if (logged.has(kind)) return;
    live = false;
    logged.add(kind);
    log('warn', `not connected to the server; the current rules stay in force; trying again: ${lastError.message}`);
  };
}
