/** Owns the two headers that carry meaning here: entity tags (RFC 9110 8.8.3) and the link to the next page (RFC 8288). */

/** What `If-Match` says for a revision; an entity tag is taken as it is. */
export const entityTag = (revision: number | string): string =>
  typeof revision === 'number' ? `"${revision}"` : revision;

/** The revision that an entity tag of this server names. */
export function revisionOf(etag: string | undefined): number | undefined {
  const digits = /^"(\d{1,16})"$/.exec(etag ?? '')?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/**
 * The `after` of the next page. Only this is taken from the link, never its address: wherever a link points, the
 * credential goes to the server that was configured.
 */
export function nextPage(link: string | null): string | undefined {
  for (const [, target = '', parameters = ''] of (link ?? '').matchAll(/<([^>]*)>((?:\s*;[^,<]*)*)/g)) {
    if (!/;\s*rel\s*=\s*(?:"(?:[^"]*\s)?next(?:\s[^"]*)?"|next\b)/i.test(parameters)) continue;
    const query = /\?([^#]*)/.exec(target)?.[1] ?? '';
    const after = new URLSearchParams(query).get('after');
    if (after !== null && after !== '') return after;
  }
  return undefined;
}
