/** Owns what the log says about the connection: each trouble once, however often it is tried again. */
import type { Log } from '../host/log.ts';
import type { Connection } from '../source/policy-source.ts';

/** Gets every state of the connection, and logs what is news for a person. */
export function connectionLog(log: Log): (connection: Connection) => void {
  /** The kinds of trouble told since the stream was last live: two may take turns, and one has many words. */
  const told = new Set<string>();
  let live = false;
  return ({ phase, lastError }) => {
    if (phase === 'live') {
      if (!live) log('info', told.size === 0 ? 'following the server' : 'following the server again');
      live = true;
      told.clear();
      return;
    }
    if (phase !== 'waiting' || lastError === undefined) return;
    const kind = lastError.kind ?? lastError.message;
    if (told.has(kind)) return;
    live = false;
    told.add(kind);
    log('warn', `not connected, rules stay as they are; trying again: ${lastError.message}`);
  };
}
