/** Owns how the parts of the agent end: all of them, before what they share is closed. */

/** Where one part fails, the others end too, and so does the process: systemd starts it again. Throws what came first when all have ended. */
export async function untilAllEnd(parts: readonly Promise<unknown>[], ending: AbortController): Promise<void> {
  await Promise.all(parts.map((part) => part.catch((fault: unknown) => ending.abort(fault))));
  ending.signal.throwIfAborted();
}
