/** Owns what a terminal may be sent: text in which nothing is invisible, turns the line around or gives the terminal orders. */

/**
 * Controls of both kinds, format characters (bidirectional controls, zero width characters, tags), separators of lines and paragraphs, lone
 * surrogates, and the letters that have no shape. A name must not look like another one.
 */
const invisible = '\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\p{Cs}\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u3164\\uffa0';
const unsafe = new RegExp(`[${invisible}]`, 'gu');

const hex = (code: number, digits: number): string => code.toString(16).padStart(digits, '0');
const escaped = (character: string): string => {
  const code = character.codePointAt(0) ?? 0;
  return code > 0xffff ? `\\u{${hex(code, 4)}}` : `\\u${hex(code, 4)}`;
};

/** One line in which everything can be seen: `\u202e`. */
export const visible = (text: string): string => text.replace(unsafe, (c) => (c === '\n' ? ' ' : escaped(c)));

/** Whether a person can see, and so type, every character. */
export const isVisible = (text: string): boolean => text.search(unsafe) === -1;

/** JSON with the same meaning, in which everything can be seen. Line ends are its layout. */
export const visibleJson = (json: string): string =>
  json.replace(unsafe, (c) => {
    if (c === '\n') return c;
    return Array.from({ length: c.length }, (_, index) => `\\u${hex(c.charCodeAt(index), 4)}`).join('');
  });

/** Whether YAML has to quote a text so that `visibleYaml` can escape it. */
export const needsQuotes = (text: string): boolean => !isVisible(text.replaceAll('\n', ''));

/** YAML with the same meaning, in which everything can be seen; what needs it stands in double quotes already. */
export const visibleYaml = (yaml: string): string =>
  yaml.replace(unsafe, (c) => {
    const code = c.codePointAt(0) ?? 0;
    if (c === '\n') return c;
    return code > 0xffff ? `\\U${hex(code, 8)}` : `\\u${hex(code, 4)}`;
  });

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

/** Colours are marked by a word that nobody could have put into a name beforehand, and become escape sequences only when written. */
export function createScreen({ colour, secret }: { readonly colour: boolean; readonly secret: () => string }): Screen {
  if (!colour) return plain;
  const word = `\u0001${secret()}:`;
  const mark = (code: number): string => `${word}${code};`;
  const pattern = new RegExp(`${word}(\\d{1,2});|[${invisible}]`, 'gu');
  return {
    paint: (style, text) => (text === '' ? '' : `${mark(codes[style][0])}${text}${mark(codes[style][1])}`),
    render: (text) =>
      text.replace(pattern, (c: string, code: string | undefined) => {
        if (code !== undefined) return `\u001b[${code}m`;
        return c === '\n' ? c : escaped(c);
      }),
  };
}
