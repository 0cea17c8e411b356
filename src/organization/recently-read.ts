/** Owns what was lately read from the texts of large records: it stays in memory up to a size, however many of them are asked about. */

/** Characters of the texts: as objects, they take about five times as much. */
const most = 16 * 1024 * 1024;
/** Those that were not asked for longest come first. */
const kept = new Map<object, { readonly value: unknown; readonly size: number }>();
let all = 0;

/** Keeps it for now. `of` is what it was read from. */
export function keepForNow(of: object, value: unknown, size: number): void {
  const known = kept.get(of);
  all += size - (known?.size ?? 0);
  kept.delete(of);
  kept.set(of, { value, size });
  for (const [oldest, { size: freed }] of kept) {
    if (all <= most || oldest === of) break;
    kept.delete(oldest);
    all -= freed;
  }
}
