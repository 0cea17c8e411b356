/** Owns how a benchmark shows its figures: one aligned table, readable in a terminal and in Markdown. */

export type Cell = string | number;

/** Two or three significant figures: what a noisy machine can vouch for. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size >= 100) return Math.round(value).toLocaleString('en-US');
  return size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** A Markdown table. Numbers are shown as `figure` and stand right. */
export function table(head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const text = rows.map((row) => row.map((cell) => (typeof cell === 'number' ? figure(cell) : cell)));
  const right = head.map((_, column) => rows.length > 0 && rows.every((row) => typeof row[column] === 'number'));
  const width = head.map((title, column) => Math.max(3, title.length, ...text.map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    `| ${width.map((w, i) => (right[i] ? (cells[i] ?? '').padStart(w) : (cells[i] ?? '').padEnd(w))).join(' | ')} |`;
  const rule = `|${width.map((w, i) => `${'-'.repeat(w + 1)}${right[i] ? ':' : '-'}`).join('|')}|`;
  return [line(head), rule, ...text.map(line)].join('\n');
}
