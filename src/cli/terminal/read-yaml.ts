/** Owns the reading of YAML, in a file of its own so that it is loaded only by commands that read it. */
import { isAlias, isMap, isScalar, isSeq, LineCounter, parse, parseAllDocuments, type Document } from 'yaml';

/** One document; throws an error whose first line says what is wrong and where. */
export const readYaml = (text: string): unknown => parse(text);

/** The way into a document: names of fields, and places in lists. */
export type YamlPath = readonly (string | number)[];

export interface YamlDocument {
  /** Undefined where the document has faults. */
  readonly value: unknown;
  readonly faults: readonly { readonly line: number; readonly message: string }[];
  /** The line of the value at this path. For a missing value, the line of its parent. */
  readonly lineOf: (path: YamlPath) => number;
}

/** Every document with all its faults. A few aliases are fine, a bomb of them is not. */
export function readAllYaml(text: string): readonly YamlDocument[] {
  const lines = new LineCounter();
  const documents = parseAllDocuments(text, { prettyErrors: true, uniqueKeys: true, lineCounter: lines });
  if (!Array.isArray(documents)) return [];
  return documents.map((document) => ({
    faults: document.errors.map(({ message, linePos }) => ({
      line: linePos?.[0].line ?? 1,
      message: (message.split('\n')[0] ?? '').replace(/ at line \d+, column \d+:?$/, ''),
    })),
    value: document.errors.length === 0 ? document.toJS({ maxAliasCount: 100 }) : undefined,
    lineOf: (path) => lines.linePos(offsetOf(document, path)).line,
  }));
}

function offsetOf(document: Document.Parsed, path: YamlPath): number {
  let node: unknown = document.contents;
  let offset = document.range[0];
  const enter = (next: unknown): void => {
    node = isAlias(next) ? next.resolve(document) : next;
    if (typeof next === 'object' && next !== null && 'range' in next && Array.isArray(next.range)) {
      offset = Number(next.range[0]);
    }
  };
  enter(node);
  for (const step of path) {
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => isScalar(key) && key.value === step);
      if (pair === undefined) break;
      // A list or mapping begins below its name, which is where people look.
      enter(pair.value);
      if (isScalar(pair.key) && !isScalar(pair.value)) offset = pair.key.range?.[0] ?? offset;
    } else if (isSeq(node) && typeof step === 'number' && step < node.items.length) enter(node.items[step]);
    else break;
  }
  return offset;
}
