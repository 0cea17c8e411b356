/** Owns what is sent to a terminal: colours that only this program can produce, lines of a difference, and text without invisible characters. */
import { escaped, unprintable, printable } from '../../policy/names/printable.ts';
import type { Line } from '../../client/words/changes.ts';

const unsafe = new RegExp(`[${unprintable}]`, 'gu');

export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow';
const codes: { readonly [S in Style]: readonly [number, number] } = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
};

/** Marks the text to be shown in a style. */
export type Paint = (style: Style, text: string) => string;

export interface Screen {
  readonly paint: Paint;
  /** What to write for a text: its marks become colours, and whatever else is not visible becomes so. Line ends stay. */
  readonly render: (text: string) => string;
}

const plain: Screen = {
  paint: (_, text) => text,
  render: (text) => text.replace(unsafe, (c) => (c === '\n' ? c : escaped(c))),
};

/**
 * Colours are marked by a random word that a name cannot contain on purpose, and become escape sequences only when
 * written.
 */
export function createScreen({ colour, secret }: { readonly colour: boolean; readonly secret: () => string }): Screen {
  if (!colour) return plain;
  const word = `\u0001${secret()}:`;
  const mark = (code: number): string => `${word}${code};`;
  const pattern = new RegExp(`${word}(\\d{1,2});|[${unprintable}]`, 'gu');
  return {
    paint: (style, text) => (text === '' ? '' : `${mark(codes[style][0])}${text}${mark(codes[style][1])}`),
    render: (text) =>
      text.replace(pattern, (c: string, code: string | undefined) => {
        if (code !== undefined) return `\u001b[${code}m`;
        return c === '\n' ? c : escaped(c);
      }),
  };
}

const colours = { '+': 'green', '-': 'red', '~': 'yellow' } as const;

export const paintLine = ([sign, text]: Line, paint: Paint): string =>
  paint(colours[sign], `${sign} ${printable(text)}`);
