/** Owns the form of YAML texts: the order of fields and the indentation. Comments, the order of entries and the content stay. */
import { isMap, isScalar, isSeq, parseAllDocuments, type Document, type Pair, type YAMLMap } from 'yaml';

/** Fields of the document in their order, and for each that is a list the order of the fields of its entries. */
export type FieldOrder = Readonly<Record<string, readonly string[]>>;

const keyOf = ({ key }: Pair): string => (isScalar(key) ? String(key.value) : '');

/** Fields in this order; those that it does not name keep their order and follow. */
function orderFields(map: YAMLMap, order: readonly string[]): void {
  const placeOf = (pair: Pair): number => {
    const place = order.indexOf(keyOf(pair));
    return place === -1 ? order.length : place;
  };
  map.items = map.items.toSorted((a, b) => placeOf(a) - placeOf(b));
}

function orderDocument({ contents }: Document.Parsed, order: FieldOrder): void {
  if (!isMap(contents)) return;
  orderFields(contents, Object.keys(order));
  for (const pair of contents.items) {
    const entryOrder = order[keyOf(pair)];
    if (entryOrder === undefined || !isSeq(pair.value)) continue;
    for (const entry of pair.value.items) if (isMap(entry)) orderFields(entry, entryOrder);
  }
}

const valuesOf = (documents: readonly Document.Parsed[]): string =>
  JSON.stringify(documents.map((document) => sorted(document.toJS({ maxAliasCount: 100 }))));

/** With fields in the order of their names, so that only the content is compared. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([name, inner]) => [name, sorted(inner)]));
}

const readAll = (text: string): readonly Document.Parsed[] => {
  const documents = parseAllDocuments(text, { uniqueKeys: true });
  return Array.isArray(documents) ? documents : [];
};

/** The text in one form. Throws where it is no YAML. */
export function formatYaml(text: string, order: FieldOrder): string {
  const documents = readAll(text);
  const [fault] = documents.flatMap(({ errors }) => errors);
  if (fault !== undefined) throw fault;
  const before = valuesOf(documents);
  for (const document of documents) orderDocument(document, order);
  const formatted = documents
    .map((document) => document.toString({ lineWidth: 0, indentSeq: true, flowCollectionPadding: false }))
    .join('');
  if (valuesOf(readAll(formatted)) !== before) throw new Error('the form would change what the file says');
  return formatted;
}
