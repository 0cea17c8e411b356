/** Owns the check whether a server URL would send credentials over a network unencrypted. */
import { isSafeUrl } from './safe-url.ts';

/** True for `http://` to any host but this machine itself. */
export const isPlainRemote = (server: string): boolean => new URL(server).protocol === 'http:' && !isSafeUrl(server);
