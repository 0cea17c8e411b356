/** Owns YAML, in a file of its own so that it is loaded only by commands that read or write it. */
import { Document, parse, parseAllDocuments, visit } from 'yaml';
import { needsQuotes, visibleYaml } from '../../node/visible.ts';

export function writeYaml(data: unknown): string {
  const document = new Document(data, { aliasDuplicateObjects: false });
  visit(document, {
    Scalar(_, scalar) {
      if (typeof scalar.value === 'string' && needsQuotes(scalar.value)) scalar.type = 'QUOTE_DOUBLE';
    },
  });
  return visibleYaml(document.toString({ lineWidth: 0 }));
}

/** One document; throws an error whose first line says what is wrong and where. */
export const readYaml = (text: string): unknown => parse(text);

/** Every document with its first fault, if it has one. A few aliases are fine, a bomb of them is not. */
export function readAllYaml(text: string): readonly { readonly value: unknown; readonly fault: string | undefined }[] {
  const documents = parseAllDocuments(text, { prettyErrors: true, uniqueKeys: true });
  if (!Array.isArray(documents)) return [];
  return documents.map((document) => {
    const fault = document.errors[0]?.message.split('\n')[0];
    return { fault, value: fault === undefined ? document.toJS({ maxAliasCount: 100 }) : undefined };
  });
}
