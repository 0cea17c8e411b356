/** Owns the reading of JSON: it checks the limits before it builds anything, and then parses strictly. */
import { HttpError, invalid } from '../../problems.ts';

/** The limits of a document. The scan of its bytes refuses one beyond them: a parsed tree would cost a hundred times more. */
export interface JsonBounds {
  /** Arrays and objects in each other. */
  readonly depth: number;
  /** Arrays and objects altogether. */
  readonly containers: number;
  /** Fields of all objects. */
  readonly fields: number;
  /** Entries of all arrays and objects. */
  readonly values: number;
  /** Bytes of characters outside ASCII: only names and descriptions hold any, and reading them costs ten times as much. */
  readonly beyondAscii: number;
}

const quote = 0x22;
const backslash = 0x5c;

/** Scans the bytes of a document while they arrive, so that no part takes long. Invalid JSON passes here, and the parser finds it. */
export class JsonScan {
  readonly #bounds: JsonBounds;
  #depth = 0;
  #containers = 0;
  #fields = 0;
  #values = 0;
  #beyondAscii = 0;
  #inText = false;
  #isEscaped = false;

  constructor(bounds: JsonBounds) {
    this.#bounds = bounds;
  }

  /** The next bytes. Throws 422 once the document is beyond a bound. No allocation. */
  push(bytes: Uint8Array): void {
    let inText = this.#inText;
    let isEscaped = this.#isEscaped;
    for (let at = 0; at < bytes.length; at += 1) {
      const byte = bytes[at] ?? 0;
      if (byte >= 0x80) this.#beyondAscii += 1;
      if (inText) {
        if (isEscaped) isEscaped = false;
        else if (byte === backslash) isEscaped = true;
        else if (byte === quote) inText = false;
        continue;
      }
      switch (byte) {
        case quote:
          inText = true;
          break;
        case 0x5b: // [
        case 0x7b: // {
          this.#depth += 1;
          this.#containers += 1;
          if (this.#depth > this.#bounds.depth) throw tooDeep(this.#bounds.depth);
          if (this.#containers > this.#bounds.containers)
            throw tooMany(`${this.#bounds.containers} arrays and objects`);
          break;
        case 0x5d: // ]
        case 0x7d: // }
          this.#depth -= 1;
          break;
        case 0x3a: // :
          this.#fields += 1;
          if (this.#fields > this.#bounds.fields) throw tooMany(`${this.#bounds.fields} fields`);
          break;
        case 0x2c: // ,
          this.#values += 1;
          if (this.#values > this.#bounds.values) throw tooMany(`${this.#bounds.values} values`);
          break;
        default:
      }
    }
    if (this.#beyondAscii > this.#bounds.beyondAscii) throw beyondAscii(this.#bounds.beyondAscii);
    this.#inText = inText;
    this.#isEscaped = isEscaped;
  }
}

const tooDeep = (depth: number): HttpError =>
  invalid([{ pointer: '', code: 'too_deep', detail: `The body may have at most ${depth} levels of nesting.` }]);

const beyondAscii = (bytes: number): HttpError =>
  invalid([
    {
      pointer: '',
      code: 'text_too_long',
      detail: `The body may contain at most ${bytes} bytes of non-ASCII characters.`,
    },
  ]);

const tooMany = (what: string): HttpError =>
  invalid([{ pointer: '', code: 'too_many_values', detail: `The body may contain at most ${what}.` }]);

const strict = new TextDecoder('utf-8', { fatal: true });

/**
 * Parses UTF-8 JSON of a document within its limits. For a repeated key the last value counts, as in every JavaScript
 * program; `__proto__` becomes an ordinary field, which no schema knows; numbers too large become Infinity, which no
 * schema accepts. So each is harmless.
 */
export function parseJson(bytes: Uint8Array): unknown {
  if (bytes.length === 0) return undefined;
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

/** The line and column at which the text stops being JSON. The text itself is left out, because it may be a secret. */
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
