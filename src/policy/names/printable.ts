/**
 * Owns the escaping of text for terminals and logs: no invisible characters, no reversed lines, no terminal commands.
 */

/**
 * Controls of both kinds, format characters (bidirectional controls, zero width characters, tags), separators of lines and paragraphs, lone
 * surrogates, and the letters that have no shape. A name must not look like another one.
 */
export const unprintable = '\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\p{Cs}\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u3164\\uffa0';
const unsafe = new RegExp(`[${unprintable}]`, 'gu');

const hex = (code: number, digits: number): string => code.toString(16).padStart(digits, '0');
/** `\u202e` */
export const escaped = (character: string): string => {
  const code = character.codePointAt(0) ?? 0;
  return code > 0xffff ? `\\u{${hex(code, 4)}}` : `\\u${hex(code, 4)}`;
};

/** One line in which everything can be seen: `\u202e`. */
export const printable = (text: string): string => text.replace(unsafe, (c) => (c === '\n' ? ' ' : escaped(c)));

/** Whether a person can see, and so type, every character. */
export const isPrintable = (text: string): boolean => text.search(unsafe) === -1;

/** JSON with the same meaning, in which everything can be seen. Line ends are its layout. */
export const printableJson = (json: string): string =>
  json.replace(unsafe, (c) => {
    if (c === '\n') return c;
    return Array.from({ length: c.length }, (_, index) => `\\u${hex(c.charCodeAt(index), 4)}`).join('');
  });

/** Whether YAML has to quote a text so that `printableYaml` can escape it. */
export const needsQuotes = (text: string): boolean => !isPrintable(text.replaceAll('\n', ''));

/**
 * Escapes every invisible character in the YAML without changing its meaning. The YAML writer already double-quotes
 * values that contain such characters.
 */
export const printableYaml = (yaml: string): string =>
  yaml.replace(unsafe, (c) => {
    const code = c.codePointAt(0) ?? 0;
    if (c === '\n') return c;
    return code > 0xffff ? `\\U${hex(code, 8)}` : `\\u${hex(code, 4)}`;
  });
