/** Owns text for terminals: its width, how it is cut to fit, and words that a person can type into a shell. */

const zeroWidth = /^(?:\p{Mn}|\p{Me}|[\u200b-\u200d])$/u;
const doubleWidth =
  /^[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]$/u;

/** Columns that the text takes on a terminal. */
export function widthOf(text: string): number {
  let width = 0;
  for (const character of text) width += zeroWidth.test(character) ? 0 : doubleWidth.test(character) ? 2 : 1;
  return width;
}

/** The text if it fits, else as much of it as does, with a sign that there is more. */
export function cutTo(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let shown = '';
  let used = 0;
  for (const character of text) {
    used += widthOf(character);
    if (used > width - 1) break;
    shown += character;
  }
  return `${shown}…`;
}

/** The text as one word of a command line, in quotes where a shell needs them. */
export const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
