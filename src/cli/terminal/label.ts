/** Owns labels as users type them: one, or several separated by commas or `+`. */
import { parseLabel } from '../../policy/label.ts';
import { usageError } from './exit.ts';

/** Each label once; one of wrong form is refused with the reason. */
export function readLabels(texts: readonly string[]): readonly string[] {
  const words = texts.flatMap((text) => text.split(/[,+]/)).map((word) => word.trim());
  const labels = words.filter((word) => word !== '').map(readLabel);
  return [...new Set(labels)];
}

export function readLabel(text: string): string {
  const label = parseLabel(text);
  if (typeof label === 'string') return label;
  throw usageError(`the label ${JSON.stringify(text)} ${label.reason}`);
}

/** The labels that an option names; `none` takes all of them away. */
export const readLabelOption = (texts: readonly string[]): readonly string[] =>
  texts.length === 1 && texts[0] === 'none' ? [] : readLabels(texts);
