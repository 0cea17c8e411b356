/** Runs a part of the readers of a fault run in a process of its own, and answers what the test asks about them. */
import { startGroupReaders, type GroupReader, type GroupReadersOptions } from './group-readers.ts';

export interface ReadersReport {
  /** How often readers were refused to go on from where they were, and listed everything again. */
  readonly relists: number;
  readonly faults: readonly string[];
  readonly errors: readonly string[];
}

export type ReadersOrder =
  | { readonly kind: 'start'; readonly options: Omit<GroupReadersOptions, 'signal'> }
  | { readonly kind: 'compare'; readonly groups: readonly (readonly [id: string, revision: number])[] }
  | { readonly kind: 'report' };

export type ReadersAnswer =
  | { readonly kind: 'synced' }
  /** `different`: what one of the readers that hold something else holds; undefined when all hold these groups. */
  | { readonly kind: 'compared'; readonly different: string | undefined }
  | { readonly kind: 'reported'; readonly report: ReadersReport };

/** So many open their first stream at once. */
const atOnce = 50;
const readers: GroupReader[] = [];
const stop = new AbortController();

function difference({ held }: { held: ReadonlyMap<string, number> }, groups: ReadonlyMap<string, number>): string {
  const wrong = [...groups].filter(([id, revision]) => held.get(id) !== revision);
  const [first] = wrong.map(([id, revision]) => `${id} at ${held.get(id)} instead of ${revision}`);
  const ghosts = [...held.keys()].filter((id) => !groups.has(id));
  return `${wrong.length} of ${groups.size} groups are missing or old (${first}), and ${ghosts.length} are no groups`;
}

const isSame = (a: ReadonlyMap<string, number>, b: ReadonlyMap<string, number>): boolean =>
  a.size === b.size && [...a].every(([id, revision]) => b.get(id) === revision);

async function obey(order: ReadersOrder): Promise<ReadersAnswer> {
  switch (order.kind) {
    case 'start': {
      const { count } = order.options;
      for (let left = count; left > 0; left -= atOnce) {
        const started = startGroupReaders({
          ...order.options,
          count: Math.min(left, atOnce),
          signal: stop.signal,
        });
        readers.push(...started);
        await Promise.all(started.map(({ synced }) => synced));
      }
      return { kind: 'synced' };
    }
    case 'compare': {
      const groups = new Map(order.groups);
      const other = readers.map((reader) => reader.held()).find((held) => !isSame(held, groups));
      return { kind: 'compared', different: other && difference({ held: other }, groups) };
    }
    case 'report': {
      const relists = readers.reduce((sum, reader) => sum + reader.relists, 0);
      const faults = readers.flatMap((reader) => reader.faults);
      const errors = readers.flatMap((reader) => reader.errors);
      return { kind: 'reported', report: { relists, faults, errors } };
    }
    default:
      return order satisfies never;
  }
}

process.on('message', (order: ReadersOrder) => {
  // A fault ends the process, and the test notices.
  void obey(order).then((answer) => process.send?.(answer));
});
