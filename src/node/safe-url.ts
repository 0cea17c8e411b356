/** Owns the question whether an address may be trusted to carry what nobody may change on its way. */

/** Plain HTTP is for a provider on this machine only: whoever can change the keys on their way can be anyone. */
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
