/** Owns the question whether a server's address sends credentials over a network in the clear. */
import { isSafeUrl } from './safe-url.ts';

/** True for `http://` to any host but this machine itself. */
export const isPlainRemote = (server: string): boolean => new URL(server).protocol === 'http:' && !isSafeUrl(server);
