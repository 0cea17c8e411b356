/**
 * Owns the text form of selectors, `label:app`, `label:app+prod`, `all-devices`, in policy files, commands and queries.
 */
import { parseLabel } from '../label.ts';
import type { Selector } from '../rule.ts';

/** Why a text is no selector. */
interface SelectorFault {
  readonly fault: string;
}

/** Undefined where the text is no such word, so that it may be something else. A plus may arrive as a space from a query. */
export function parseSelectorWord(text: string): Selector | SelectorFault | undefined {
  if (/^all[-_]devices$/i.test(text)) return { all_devices: true };
  const words = /^labels?:(.*)$/is.exec(text)?.[1];
  if (words === undefined) return undefined;
  const labels = new Set<string>();
  for (const word of words.split(/\s*[+\s]\s*/)) {
    const label = parseLabel(word);
    if (typeof label !== 'string') return { fault: `the label ${JSON.stringify(word)} ${label.reason}` };
    labels.add(label);
  }
  return { labels: [...labels].toSorted() };
}

/** Says that a text names no devices. */
const notSelecting = (text: string): string =>
  `\`${text}\` does not select devices: write \`label:app\`, \`label:app+prod\` or \`all-devices\``;

/** Several selectors, with commas between them. */
export function parseSelectors(text: string): readonly Selector[] | SelectorFault {
  const selectors: Selector[] = [];
  for (const word of text.split(',')) {
    const selector = parseSelectorWord(word.trim());
    if (selector === undefined) return { fault: notSelecting(word) };
    if ('fault' in selector) return selector;
    selectors.push(selector);
  }
  return selectors;
}
