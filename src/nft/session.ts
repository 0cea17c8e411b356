/** Owns the lines of an interactive nft session around the batches, and the reading of its replies. */
import { tableFamily, type Command, type TableName } from './ast.ts';
import { endedTable, type EndedCommand } from './ended-flows.ts';
import type { ObjectName } from './names.ts';
import { printCommands } from './print.ts';

/** Lists one of our tables and nothing else. */
export const listLine = (table: TableName | typeof endedTable): string => `list table ${tableFamily} ${table}`;

/** Lists one set of ours with its elements. */
export const setLine = (table: TableName, set: ObjectName): string => `list set ${tableFamily} ${table} ${set}`;

/** Which tables there are, by their names and numbers, and what the counters of one of ours have counted. */
export const tablesLine = `list tables ${tableFamily}`;
export const countersLine = (table: TableName): string => `list counters table ${tableFamily} ${table}`;

/** Success is silent, so this harmless question is sent after each line: its answer marks the end of the answer before. */
export const markLine = 'describe udp dport';
export const isMark = (line: string): boolean => line.includes('datatype inet_service');

/** What a listing begins with: it is one line. */
export const listingStart = '{"nftables"';

/** A line reads a file as one transaction. Paths that nft would read otherwise than we mean are refused. */
export function includeLine(path: string): string {
  if (!/^\/[A-Za-z0-9_./+=@%,-]+$/.test(path)) throw new TypeError(`nft cannot include ${JSON.stringify(path)}`);
  return `include "${path}"`;
}

/** A batch as one line, which nft takes as one transaction. */
export const batchLine = (commands: readonly (Command | EndedCommand)[]): string =>
  printCommands(commands).trimEnd().replaceAll('\n', '; ');

export type NftReply =
  | { readonly kind: 'done'; readonly json?: string }
  | { readonly kind: 'absent'; readonly detail: string }
  | { readonly kind: 'not_permitted'; readonly detail: string }
  | { readonly kind: 'refused'; readonly detail: string };

const longestDetail = 300;
/** Plain, or with the file and place that an included line has. */
const errorLine = /^(?:nft> )*(?:\S+:\d+:\d+(?:-\d+)?: )?(?:netlink: )?Error: (.*)$/;

/**
 * nft's reply to one line, without the end mark. The first error is the most useful one; the text that nft quotes may
 * be megabytes long.
 */
export function readNftReply(lines: readonly string[]): NftReply {
  for (const line of lines) {
    // The quoted line of a failed batch can be huge and is never an error line itself: only its beginning is looked at.
    const error = errorLine.exec(line.slice(0, 1_000));
    if (error === null) continue;
    const detail = (error[1] ?? '').slice(0, longestDetail);
    if (/Operation not permitted|Permission denied/.test(detail)) return { kind: 'not_permitted', detail };
    return { kind: detail.includes('No such file or directory') ? 'absent' : 'refused', detail };
  }
  const json = lines.find((line) => line.startsWith(listingStart));
  return json === undefined ? { kind: 'done' } : { kind: 'done', json };
}
