/** Owns the reading of YAML, in a file of its own so that it is loaded only by commands that read it. */
import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parse,
  parseAllDocuments,
  visit,
  type Document,
  type Scalar,
} from 'yaml';

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
  for (const document of documents) keepDescriptions(document, text);
  return documents.map((document) => ({
    faults: document.errors.map(({ message, linePos }) => ({
      line: linePos?.[0].line ?? 1,
      message: (message.split('\n')[0] ?? '').replace(/ at line \d+, column \d+:?$/, ''),
    })),
    value: document.errors.length === 0 ? document.toJS({ maxAliasCount: 100 }) : undefined,
    lineOf: (path) => lines.linePos(offsetOf(document, path)).line,
  }));
}

/** Lists of rules, which may be written as words. */
const ruleLists = new Set(['inbound', 'outbound', 'inbound_rules', 'outbound_rules']);

/**
 * In words, a rule's description is what follows `#`. To YAML, that is a comment unless the rule stands in quotes: a comment on the line of a
 * rule is its description, with quotes or without.
 */
function keepDescriptions(document: Document.Parsed, text: string): void {
  visit(document, {
    Pair: (_, { key, value }) => {
      if (!isScalar(key) || !ruleLists.has(String(key.value)) || !isSeq(value)) return;
      for (const rule of value.items) if (isScalar(rule)) keepDescription(rule, text);
    },
  });
}

function keepDescription(rule: Scalar, text: string): void {
  const { value, range } = rule;
  if (typeof value !== 'string' || value.includes('#') || !range) return;
  const [, comment] = /^[ \t]+#([^\r\n]*)/.exec(text.slice(range[1])) ?? [];
  if (comment !== undefined && comment.trim() !== '') rule.value = `${value} #${comment}`;
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
