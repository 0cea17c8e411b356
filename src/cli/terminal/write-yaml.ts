/** Owns the writing of YAML, in a file of its own so that only commands that write it load it. */
import { Document, visit } from 'yaml';
import { needsQuotes, printableYaml } from '../../policy/names/printable.ts';

export function writeYaml(data: unknown): string {
  const document = new Document(data, { aliasDuplicateObjects: false });
  visit(document, {
    Scalar(_, scalar) {
      if (typeof scalar.value === 'string' && needsQuotes(scalar.value)) scalar.type = 'QUOTE_DOUBLE';
    },
  });
  return printableYaml(document.toString({ lineWidth: 0 }));
}
