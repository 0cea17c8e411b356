/**
 * Owns how many connections the process may keep under its limit of open files. It reserves descriptors for the
 * database, files and outgoing requests.
 */
import { readdir, readFile } from 'node:fs/promises';
import { spareConnections } from './connections.ts';

/** Reserve for files, pipes, identity providers and the rest. */
const others = 32;
/** The server allows at least this many connections. */
const least = 16;
/** More than this is more than memory holds. */
const most = 1_000_000;

/** The soft limit of open files in the text of /proc/self/limits; undefined where it is unlimited. */
export function openFilesLimit(text: string): number | undefined {
  const soft = /^Max open files\s+(\d+|unlimited)/m.exec(text)?.[1];
  return soft === undefined || soft === 'unlimited' ? undefined : Number(soft);
}

/** Connections that fit, by the limit, what is open already, and what is to be kept free. */
export const connectionsWithin = (limit: number | undefined, open: number, reserved: number): number =>
  Math.max(least, Math.min(most, (limit ?? most * 2) - open - reserved - others - spareConnections));

/** As measured now. When the system does not report a limit, there is none. */
export async function fittingConnections(reserved: number): Promise<number> {
  try {
    const [text, open] = await Promise.all([readFile('/proc/self/limits', 'utf8'), readdir('/proc/self/fd')]);
    return connectionsWithin(openFilesLimit(text), open.length, reserved);
  } catch {
    return most;
  }
}
