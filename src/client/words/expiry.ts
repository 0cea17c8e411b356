/** Owns when a rule expires, in words: one text for command line and pages. */

const units = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
] as const;

/** `2 h`, in the largest unit that fits at least twice, so that `in 36 h` is not `in 1 d`. */
function span(milliseconds: number): string {
  const [unit, size] = units.find(([, one]) => milliseconds >= 2 * one) ?? (['s', 1_000] as const);
  return `${Math.round(milliseconds / size)} ${unit}`;
}

/** `expires in 2 h`, `expired 3 h ago`. */
export function expiryWords(expires_at: string, now: number = Date.now()): string {
  const left = Date.parse(expires_at) - now;
  return left > 0 ? `expires in ${span(left)}` : `expired ${span(-left)} ago`;
}
