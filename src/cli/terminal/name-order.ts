/** Owns the natural order of names: `web-2` comes before `web-10`. */

/** Made for names beyond ASCII only: to load what it knows of all scripts takes as long as many a command. */
let collator: Intl.Collator | undefined;

/** Printable ASCII as the collator orders it; capitals stand beside their small letters. */
const order = ' _-,;:!?.\'"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz';

/** By code; 0 for what is not printable ASCII. */
const ranks = Uint8Array.from(
  { length: 128 },
  (_, code) => order.indexOf(String.fromCodePoint(code).toLowerCase()) + 1,
);

/** The collator takes longer runs of digits apart. */
const longest = 254;

const isPlain = (name: string): boolean => name.length <= longest && /^[ -~]*$/.test(name);
const isDigit = (code: number): boolean => code >= 48 && code <= 57;

/** The same as `new Intl.Collator('en', { numeric: true }).compare`. */
export function compareNames(a: string, b: string): number {
  if (isPlain(a) && isPlain(b)) return comparePlain(a, b);
  return (collator ??= new Intl.Collator('en', { numeric: true })).compare(a, b);
}

function comparePlain(a: string, b: string): number {
  let inA = 0;
  let inB = 0;
  /** Where names differ in nothing but capitals, the small letter is first. */
  let byCase = 0;
  while (inA < a.length && inB < b.length) {
    const codeA = a.charCodeAt(inA);
    const codeB = b.charCodeAt(inB);
    if (isDigit(codeA) && isDigit(codeB)) {
      const numberA = numberAt(a, inA);
      const numberB = numberAt(b, inB);
      if (numberA.digits !== numberB.digits)
        return numberA.digits.length - numberB.digits.length || (numberA.digits < numberB.digits ? -1 : 1);
      inA = numberA.end;
      inB = numberB.end;
    } else {
      const difference = (ranks[codeA] ?? 0) - (ranks[codeB] ?? 0);
      if (difference !== 0) return difference;
      if (byCase === 0) byCase = codeB - codeA;
      inA += 1;
      inB += 1;
    }
  }
  return a.length - inA - (b.length - inB) || byCase;
}

/** Without zeros in front, which make no difference. */
function numberAt(text: string, start: number): { readonly digits: string; readonly end: number } {
  let end = start;
  while (end < text.length && isDigit(text.charCodeAt(end))) end += 1;
  return { digits: text.slice(start, end).replace(/^0+/, ''), end };
}
