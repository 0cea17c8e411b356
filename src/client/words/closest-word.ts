/** Owns the suggestion for a mistyped word. */

/** The nearest of the words to a mistyped one, if any is near enough. */
export function closestWord(word: string, words: readonly string[]): string | undefined {
  const lower = word.toLowerCase();
  const ranked = words
    .map((candidate) => ({ candidate, distance: distance(lower, candidate.toLowerCase()) }))
    .toSorted((a, b) => a.distance - b.distance);
  const best = ranked[0];
  return best !== undefined && best.distance <= Math.max(1, Math.floor(word.length / 3)) ? best.candidate : undefined;
}

/** Insertions, deletions, substitutions and swaps of neighbours that lead from one text to the other. */
function distance(a: string, b: string): number {
  const rows: number[][] = Array.from({ length: a.length + 1 }, (_, i) => [i]);
  const cell = (i: number, j: number): number => rows[i]?.[j] ?? 0;
  for (let j = 1; j <= b.length; j += 1) rows[0]?.push(j);
  for (let i = 1; i <= a.length; i += 1) {
    for (let j = 1; j <= b.length; j += 1) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      let least = Math.min(cell(i - 1, j) + 1, cell(i, j - 1) + 1, cell(i - 1, j - 1) + cost);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        least = Math.min(least, cell(i - 2, j - 2) + 1);
      rows[i]?.push(least);
    }
  }
  return cell(a.length, b.length);
}
