/** Owns a model of the server's stream: a history of changes, and what a stream that opens now would send. */
import type { WatchKind } from '../api/kinds.ts';
import type { WatchItem } from '../api/watch.ts';
import { device, deviceId, group, groupId, organization } from './records.fixture.ts';

interface Entry {
  readonly kind: WatchKind;
  readonly type: 'change' | 'delete';
  readonly number: number;
  readonly revision: number;
  /** A group that left the view shows nothing but its id. */
  readonly departed?: true;
}

const valueOf = ({ kind, number, revision, departed }: Entry): object => {
  if (departed) return { id: groupId(number), org_id: organization, revision };
  return kind === 'device' ? device(number, revision) : group(number, revision);
};

/** How the model's listings are read: up to the head at the opening, or up to whatever the head is when they end. */
export type Listing = 'bounded' | 'unbounded';

export class Model {
  /** Every change ever, ascending. */
  readonly #log: Entry[] = [];
  /** The newest entry of every resource, deletions included. */
  readonly #newest = new Map<string, Entry>();
  /** Resuming below it is refused. */
  purged = 0;

  get head(): number {
    return this.#log.length;
  }

  /** What a reader may see now: ids with their revisions. */
  truth(kind: WatchKind): Map<string, number> {
    const seen = [...this.#newest.values()].filter((entry) => entry.kind === kind && entry.type === 'change');
    return new Map(
      seen.map(({ number, revision }) => [kind === 'device' ? deviceId(number) : groupId(number), revision]),
    );
  }

  /** One change: of a few resources, so that they meet again. A deleted device stays away, a group may leave and return. */
  write(pick: number): void {
    const kind = pick % 2 === 0 ? 'device' : 'security-groups';
    const number = (pick >> 1) % 7;
    const old = this.#newest.get(`${kind} ${number}`);
    const revision = this.#log.length + 1;
    const remove = old?.type === 'change' && (pick >> 4) % 3 === 0;
    // A device's number names a new device once the old one is gone: ids are never used again.
    const fresh = kind === 'device' && old?.type === 'delete' ? number + 7 * revision : number;
    const departed = remove && kind === 'security-groups' && (pick >> 6) % 2 === 0;
    const entry: Entry = {
      kind,
      type: remove ? 'delete' : 'change',
      number: fresh,
      revision,
      ...(departed && { departed }),
    };
    this.#log.push(entry);
    this.#newest.set(`${kind} ${fresh}`, entry);
  }

  /** Whether a stream that goes on after this revision must be refused (410). */
  isGone({ gt_revision = 0 }: WatchItem): boolean {
    return gt_revision > 0 && (gt_revision < this.purged || gt_revision > this.head);
  }

  /** The documents of one stream; undefined while there is nothing to say. The history may grow between two steps. */
  *stream(items: readonly WatchItem[], listing: Listing): Generator<object | undefined, never> {
    const named = items.length > 1;
    const opened = this.head;
    const cursors = new Map<WatchKind, number>();
    const document = (entry: Entry): object => ({
      type: entry.type,
      ...(named && { kind: entry.kind }),
      value: valueOf(entry),
    });
    for (const { kind, gt_revision = 0, at_tail } of items) {
      let cursor = gt_revision;
      for (;;) {
        const owed = [...this.#newest.values()].filter(
          (entry) =>
            entry.kind === kind &&
            entry.revision > cursor &&
            (listing === 'unbounded' || entry.revision <= opened) &&
            (entry.type === 'change' || gt_revision > 0 || entry.revision > opened),
        );
        const next = owed.toSorted((a, b) => a.revision - b.revision)[0];
        if (next === undefined) break;
        cursor = next.revision;
        yield document(next);
      }
      cursors.set(kind, cursor);
      if (at_tail !== true) yield { type: 'tail', ...(named && { kind }) };
    }
    let at = opened;
    for (;;) {
      const entry = this.#log[at];
      if (entry === undefined) {
        yield undefined;
        continue;
      }
      at += 1;
      const cursor = cursors.get(entry.kind);
      if (cursor !== undefined && entry.revision > cursor) yield document(entry);
    }
  }
}
