/** Owns the folder outside the checkout in which downloads and slow results are kept between runs. */
import { mkdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

/**
 * A folder of that name, made if it is absent. `RINGFENCE_CACHE` or `XDG_CACHE_HOME` puts it elsewhere.
 * @param {string} name
 */
export function cacheFolder(name) {
  const { RINGFENCE_CACHE, XDG_CACHE_HOME } = process.env;
  const folder = join(RINGFENCE_CACHE ?? join(XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'ringfence'), name);
  mkdirSync(folder, { recursive: true });
  return folder;
}
