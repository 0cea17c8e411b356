/** Owns the check whether a URL is safe for content that must not be changed in transit. */

/**
 * Plain HTTP is accepted only for a provider on this machine: an attacker who can change the keys in transit can
 * impersonate any user.
 */
export function isSafeUrl(text: string): boolean {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    return false;
  }
  if (url.username !== '' || url.password !== '') return false;
  if (url.protocol === 'https:') return true;
  return url.protocol === 'http:' && /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname);
}
