/** Owns the lines of a difference on a terminal. */
import type { Line } from '../../client/words/changes.ts';
import { visible } from '../../node/visible.ts';
import type { Paint } from './screen.ts';

const colours = { '+': 'green', '-': 'red', '~': 'yellow' } as const;

export const paintLine = ([sign, text]: Line, paint: Paint): string => paint(colours[sign], `${sign} ${visible(text)}`);
