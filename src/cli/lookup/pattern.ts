/** Owns shell patterns for names: `*` matches any characters, `?` matches one. */

export const isPattern = (text: string): boolean => /[*?]/.test(text);

/** Whether the name matches; in one walk, going back to the last star only, so that no pattern takes long. */
export function matchesPattern(pattern: string, name: string): boolean {
  const [wanted, given] = [[...pattern], [...name]];
  let [at, here] = [0, 0];
  let star: { readonly pattern: number; name: number } | undefined;
  while (here < given.length) {
    if (wanted[at] === '*') {
      star = { pattern: at, name: here };
      at += 1;
    } else if (wanted[at] === '?' || (at < wanted.length && wanted[at] === given[here])) {
      at += 1;
      here += 1;
    } else if (star === undefined) return false;
    else {
      star.name += 1;
      at = star.pattern + 1;
      here = star.name;
    }
  }
  while (wanted[at] === '*') at += 1;
  return at === wanted.length;
}
