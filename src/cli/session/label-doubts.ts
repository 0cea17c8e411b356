/** Owns the doubts about labels that no device has. */
import { unknownLabels } from '../../client/words/unknown-labels.ts';
import type { Doubt } from './ask-about.ts';

/** A question is worth it where another label is near: that looks like a typing mistake. */
export const labelDoubts = (named: Iterable<string>, known: ReadonlySet<string>): readonly Doubt[] =>
  unknownLabels(named, known).map(({ label, near }) => {
    const text = `no device has label \`${label}\``;
    return near === undefined
      ? { text: `${text} yet.`, asks: false }
      : { text: `${text}; did you mean \`${near}\`?`, asks: true };
  });
