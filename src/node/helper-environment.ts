/** Owns the environment of helper programs. */

/** Debian keeps nft, ip and conntrack in sbin, which is not on everybody's path. */
const searchPath = [process.env['PATH'] ?? '', '/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin']
  .filter((part) => part !== '')
  .join(':');

/**
 * What a program sees of our environment: where programs are, and English messages, which we read. nft writes the
 * history of an interactive session into the home directory; there must be none.
 */
export const helperEnvironment = { PATH: searchPath, LC_ALL: 'C', HOME: '/nonexistent' };
