/** Owns the lines of a difference on a terminal. */
import type { Line } from '../../client/words/changes.ts';
import { printable } from '../../policy/names/printable.ts';
import type { Paint } from './screen.ts';

const colours = { '+': 'green', '-': 'red', '~': 'yellow' } as const;

export const paintLine = ([sign, text]: Line, paint: Paint): string =>
  paint(colours[sign], `${sign} ${printable(text)}`);
