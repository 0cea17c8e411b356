/** Owns the reading of JSON: bounded before anything is built of it, then strict. */
import { HttpError, invalid } from '../errors.ts';

/** How much a document may hold. What is beyond is refused by a look at its bytes: a tree of it would cost a hundred times more. */
export interface JsonBounds {
  /** Arrays and objects in each other. */
  readonly depth: number;
  /** Arrays and objects altogether. */
  readonly containers: number;
  /** Fields of all objects. */
  readonly fields: number;
}

const quote = 0x22;
const backslash = 0x5c;

/** Throws 422 for a document beyond the bounds. One pass, no allocation; what is no JSON passes, and is found by the parser. */
export function refuseBeyond(bytes: Uint8Array, bounds: JsonBounds): void {
  let depth = 0;
  let containers = 0;
  let fields = 0;
  let inText = false;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0;
    if (inText) {
      if (byte === backslash) at += 1;
      else if (byte === quote) inText = false;
      continue;
    }
    switch (byte) {
      case quote:
        inText = true;
        break;
      case 0x5b: // [
      case 0x7b: // {
        depth += 1;
        containers += 1;
        if (depth > bounds.depth) {
          throw invalid([{ pointer: '', code: 'too_deep', detail: `The body may nest ${bounds.depth} deep.` }]);
        }
        if (containers > bounds.containers) throw tooMany(`${bounds.containers} arrays and objects`);
        break;
      case 0x5d: // ]
      case 0x7d: // }
        depth -= 1;
        break;
      case 0x3a: // :
        fields += 1;
        if (fields > bounds.fields) throw tooMany(`${bounds.fields} fields`);
        break;
      default:
    }
  }
}

const tooMany = (what: string): HttpError =>
  invalid([{ pointer: '', code: 'too_many_values', detail: `The body may hold ${what}.` }]);

const strict = new TextDecoder('utf-8', { fatal: true });

/**
 * JSON in UTF-8. Of a key written twice the last counts, as in every JavaScript program; `__proto__` becomes a field like
 * others, which no schema knows; numbers too large become Infinity, which no schema takes. So each is harmless further on.
 */
export function parseJson(bytes: Uint8Array, bounds: JsonBounds): unknown {
  if (bytes.length === 0) return undefined;
  refuseBeyond(bytes, bounds);
  let text: string;
  try {
    text = strict.decode(bytes);
  } catch {
    throw new HttpError('malformed_json', 'The body is not UTF-8.');
  }
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new HttpError('malformed_json', `The body is not JSON${place(error, text)}.`);
  }
}

/** Where the text stops being JSON, in lines and columns; what stands there is left out, as it may be a secret. */
function place(error: unknown, text: string): string {
  const position = error instanceof Error ? /at position (\d+)/.exec(error.message)?.[1] : undefined;
  if (position === undefined) return '';
  const before = text.slice(0, Number(position));
  let line = 1;
  let start = 0;
  for (let at = before.indexOf('\n'); at >= 0; at = before.indexOf('\n', start)) {
    line += 1;
    start = at + 1;
  }
  return `: line ${line}, column ${before.length - start + 1}`;
}
