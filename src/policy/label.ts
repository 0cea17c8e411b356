/** Owns labels: the words on a device by which rules and groups can name it (reference 2.12). */

declare const brand: unique symbol;
/** 1–63 characters of `a-z 0-9 . _ / -`, the first and the last a letter or a digit. */
export type Label = string & { readonly [brand]: 'Label' };

export const labelLimits = { length: 63, perDevice: 32, perSelector: 8 } as const;

/** Why a text is no label: a stable code, and a reason that ends a sentence beginning with the text. */
export interface LabelFault {
  readonly fault: 'label_invalid';
  readonly reason: string;
}

const form = /^[a-z0-9](?:[a-z0-9._/-]{0,61}[a-z0-9])?$/;

export const isLabel = (text: unknown): text is Label =>
  typeof text === 'string' && text.length <= labelLimits.length && form.test(text);

const invalid = (reason: string): LabelFault => ({ fault: 'label_invalid', reason });

/** The label that the text is. Letter case is not changed: `DB` and `db` would look like two labels. */
export function parseLabel(text: string): Label | LabelFault {
  if (isLabel(text)) return text;
  if (text === '') return invalid('is empty');
  if (text.length > labelLimits.length) return invalid(`is longer than ${labelLimits.length} characters`);
  if (/[A-Z]/.test(text)) return invalid('has upper-case letters; labels are lower case');
  if (/[^a-z0-9._/-]/.test(text)) return invalid('has characters other than a-z, 0-9, ".", "_", "/" and "-"');
  return invalid('must start and end with a letter or a digit');
}
