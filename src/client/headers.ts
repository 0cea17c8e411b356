/** Owns the two headers that carry meaning here: entity tags (RFC 9110 8.8.3) and the link to the next page (RFC 8288). */

/** What `If-Match` says for a revision; an entity tag is taken as it is. */
export const entityTag = (revision: number | string): string =>
  typeof revision === 'number' ? `"${revision}"` : revision;

/** The revision that an entity tag of this server names. */
export function revisionOf(etag: string | undefined): number | undefined {
  const digits = /^"(\d{1,16})"$/.exec(etag ?? '')?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/** Whether a parameter of a link says `rel="next"`, perhaps among other relations. */
function isNext(parameter: string): boolean {
  const [name = '', value = ''] = parameter.split('=', 2);
  if (name.trim().toLowerCase() !== 'rel') return false;
  // Behind the last parameter of a link a comma leads to the next link.
  const words = value
    .replaceAll(/[",\s]/g, ' ')
    .toLowerCase()
    .split(' ');
  return words.includes('next');
}

/**
 * The `after` of the next page. Only this is taken from the link, never its address: wherever a link points, the
 * credential goes to the server that was configured.
 */
export function nextPage(link: string | null): string | undefined {
  for (const part of (link ?? '').split('<').slice(1)) {
    const [target = '', parameters = ''] = part.split('>', 2);
    if (!parameters.split(';').slice(1).some(isNext)) continue;
    const query = target.split('#', 1)[0]?.split('?').slice(1).join('?') ?? '';
    const after = new URLSearchParams(query).get('after');
    if (after !== null && after !== '') return after;
  }
  return undefined;
}
