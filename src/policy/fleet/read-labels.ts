/** Owns the validation of labels: every problem of any JSON value, with its path and code (reference 2.12). */
import { labelLimits, parseLabel } from '../label.ts';
import { at, show, type Problems } from '../problem.ts';

/** The entries of a list, of whatever kind they are. */
function readList(value: unknown, pointer: string, most: number, problems: Problems): readonly unknown[] {
  if (value === null) {
    problems.add(pointer, 'null_not_allowed', () => 'The list must be an array; an empty one is allowed.');
    return [];
  }
  if (!Array.isArray(value)) {
    problems.add(pointer, 'not_an_array', () => `The list must be an array of strings, got ${show(value)}.`);
    return [];
  }
  if (value.length > most) {
    problems.add(pointer, 'too_many_items', () => `The list may have at most ${most} entries, got ${value.length}.`);
    return [];
  }
  return value;
}

function isText(entry: unknown, pointer: string, index: number, problems: Problems): entry is string {
  if (typeof entry === 'string') return true;
  problems.add(at(pointer, index), 'not_a_string', () => `An entry must be a string, got ${show(entry)}.`);
  return false;
}

/** Reads labels: every problem goes to `problems`; the answer is sorted, and complete only where none was added. */
export function readLabels(
  value: unknown,
  pointer: string,
  problems: Problems,
  most: number = labelLimits.perDevice,
): string[] {
  const labels = new Set<string>();
  for (const [index, text] of readList(value, pointer, most, problems).entries()) {
    if (!isText(text, pointer, index, problems)) continue;
    const label = parseLabel(text);
    if (typeof label !== 'string') {
      problems.add(at(pointer, index), label.fault, () => `${show(text)} ${label.reason}.`);
    } else if (labels.has(label)) {
      problems.add(at(pointer, index), 'duplicate', () => `The label ${show(text)} is already in the list.`);
    } else labels.add(label);
  }
  return [...labels].toSorted();
}
