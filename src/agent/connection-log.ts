/** Owns what the log says about the connection: each trouble once, however often it is tried again. */
import type { Log } from './log.ts';
import type { Connection } from './source.ts';

/** Gets every state of the connection, and logs what is news for a person. */
export function connectionLog(log: Log): (connection: Connection) => void {
  let told: string | undefined;
  let live = false;
  return ({ phase, lastError }) => {
    if (phase === 'live') {
      if (!live) log('info', told === undefined ? 'following the server' : 'following the server again');
      live = true;
      told = undefined;
      return;
    }
    if (phase !== 'waiting' || lastError === undefined || lastError.message === told) return;
    live = false;
    told = lastError.message;
    log('warn', `not connected, rules stay as they are; trying again: ${lastError.message}`);
  };
}
