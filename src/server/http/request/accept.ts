/** Owns the reading of `Accept`: whether the caller accepts JSON (RFC 9110, 12.5.1). */

/** Whether the header admits `application/json`; absent or empty admits everything. The most specific range decides. */
export function acceptsJson(header: string | undefined): boolean {
  if (header === undefined || header.trim() === '') return true;
  let best = { rank: -1, quality: 0 };
  for (const range of header.split(',')) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    const rank = ['*/*', 'application/*', 'application/json'].indexOf(type);
    if (rank <= best.rank && !(rank === best.rank && rank >= 0)) continue;
    const weight = parameters.find((parameter) => /^q\s*=/.test(parameter))?.replace(/^q\s*=\s*/, '');
    const quality = weight === undefined ? 1 : Number(weight) || 0;
    best = { rank, quality: rank === best.rank ? Math.max(best.quality, quality) : quality };
  }
  // A client that names only the error type has said that it can read JSON.
  return best.rank >= 0 ? best.quality > 0 : /application\/problem\+json/i.test(header);
}
