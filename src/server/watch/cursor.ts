/**
 * Owns a stream's cursor and what to send next: first each item's listing with its tail, in the order of the request,
 * then every later change, merged. It is pure: it looks at what the channel has in memory and says what to send or what
 * to read.
 */
import type { WatchKind } from '../../api/kinds.ts';
import type { WatchItem } from '../../api/watch.ts';
import type { UserId } from '../../policy/ids.ts';
import { isInGap, type Projection, type RevisionGap } from '../store/data/change-log.ts';
import { collect, type Batch, type Batches } from './batch.ts';
import { maskOf, projectionOf, type Frame, type Mask } from '../store/follow/frame.ts';
import type { Ring } from '../store/follow/ring.ts';
import type { RevisionTokens } from '../store/follow/revision-tokens.ts';
import { completeLine, encode, formatOf, tailLine, type Format } from './wire.ts';

export interface Item {
  readonly kind: WatchKind;
  readonly projection: Projection;
  /** Everything up to here has been sent. */
  readonly at: number;
  readonly tail: boolean;
  /**
   * While set, the item lists the state as of this revision: without deletions, because its reader knows of nothing yet. From there
   * on it reads changes and deletions like everyone else.
   */
  readonly fresh: boolean;
}

export interface Listing {
  readonly phase: 'list';
  readonly items: readonly Item[];
  readonly index: number;
  /** Of the item being listed, while it is fresh: where its listing of the state ends. Undefined until it begins. */
  readonly until: number | undefined;
}

export interface Following {
  readonly phase: 'follow';
  readonly at: number;
  /** Projections that are ahead of `at`, because their listing came later: what they sent already is not sent again. */
  readonly ahead: readonly { readonly mask: Mask; readonly at: number }[];
  /** Of a reader that wants to know: documents were sent, and not yet that they are complete. */
  readonly owed: boolean;
}

/** Streams with equal cursors share the object. */
export class SharedCursor {
  #last: Following | undefined;

  /** The cursor of a stream that was sent everything up to here. */
  at(at: number): Following {
    if (this.#last?.at !== at) this.#last = { phase: 'follow', at, ahead: [], owed: false };
    return this.#last;
  }
}

/** How far a stream has come. */
export type Cursor = Listing | Following;

/** The newest state of every resource that changed after a revision; with deletions for readers that know of older states. */
export interface StateNeed {
  readonly projection: Projection;
  readonly deletions: boolean;
  readonly after: number;
}

/** What is in memory of the current state. Undefined: that must be read first. */
export interface StateListings {
  /** What a reader is to be sent, up to a revision at most. */
  read(need: StateNeed, until: number, format: Format, reader: UserId | undefined): Batch | undefined;
  /** The frames of a range, for a reader that needs several kinds merged. */
  peek(need: StateNeed): { readonly through: number; readonly frames: readonly Frame[] } | undefined;
}

/** What the channel has in memory. */
export interface View {
  readonly ring: Ring;
  readonly batches: Batches;
  readonly listings: StateListings;
}

export interface Reader {
  readonly user: UserId | undefined;
  readonly projections: readonly Projection[];
  readonly mask: Mask;
  readonly format: Format;
}

export type Step =
  | { readonly do: 'send'; readonly bytes: Buffer | undefined; readonly events: number; readonly to: Cursor }
  | { readonly do: 'read'; readonly need: StateNeed }
  /** There is nothing to send: the stream has everything. */
  | { readonly do: 'rest' };

export const start = (items: readonly WatchItem[]): Listing => ({
  phase: 'list',
  items: items.map((item) => ({
    kind: item.kind,
    projection: projectionOf(item),
    at: item.gt_revision ?? 0,
    tail: item.at_tail !== true,
    fresh: (item.gt_revision ?? 0) === 0,
  })),
  index: 0,
  until: undefined,
});

/** A kind that goes on from a revision, with the token that came with the revision where the reader has one. */
interface ResumedKind {
  readonly kind: WatchKind;
  readonly from: number;
  readonly token: string | undefined;
}

export const resumedIn = (items: readonly WatchItem[]): readonly ResumedKind[] =>
  items.map(({ kind, gt_revision: from = 0, token }) => ({ kind, from, token })).filter(({ from }) => from > 0);

/** Whether a reader that goes on from there would be misled: it holds what is no more, or the revision was another one when it got it. */
export const isGone = (
  { kind, from, token }: ResumedKind,
  {
    head,
    gaps,
    tokens,
  }: { readonly head: number; readonly gaps: readonly RevisionGap[]; readonly tokens: RevisionTokens },
): boolean => from > head || isInGap(gaps, kind, from) || !tokens.allows(from, token);

export function next(cursor: Cursor, reader: Reader, view: View): Step {
  return cursor.phase === 'list' ? list(cursor, reader, view) : follow(cursor, reader, view);
}

function list(cursor: Listing, reader: Reader, view: View): Step {
  const item = cursor.items[cursor.index];
  if (item === undefined) return { do: 'send', bytes: undefined, events: 0, to: beginFollowing(cursor.items, reader) };
  const { projection } = item;
  const mask = maskOf([projection]);
  const { ring } = view;
  const format = formatOf({ ...reader.format, complete: false });
  const moved = (change: Partial<Item>, until: number | undefined): Listing => ({
    ...cursor,
    items: cursor.items.with(cursor.index, { ...item, ...change }),
    until,
  });

  if (item.fresh) {
    const until = cursor.until ?? ring.head;
    if (item.at >= until) return { do: 'send', bytes: undefined, events: 0, to: moved({ fresh: false }, undefined) };
    const need = { projection, deletions: false, after: item.at };
    const batch = view.listings.read(need, until, format, reader.user);
    if (batch === undefined) return { do: 'read', need };
    return send(batch, moved({ at: batch.through, fresh: batch.through < until }, until));
  }

  if (item.at < ring.head) {
    const selection = { mask, format, newest: true };
    const need = { projection, deletions: true, after: item.at };
    const batch = ring.covers(item.at)
      ? view.batches.after(item.at, selection, reader.user)
      : view.listings.read(need, ring.head, format, reader.user);
    if (batch === undefined) return { do: 'read', need };
    return send(batch, moved({ at: batch.through }, undefined));
  }

  const bytes = item.tail
    ? encode(tailLine(item.kind, item.at, reader.format, ring.tokens), reader.format.chunked)
    : undefined;
  return { do: 'send', bytes, events: item.tail ? 1 : 0, to: { ...cursor, index: cursor.index + 1, until: undefined } };
}

/** The kinds were listed one after the other, each as of another moment: only what follows makes them one. */
function beginFollowing(items: readonly Item[], { format }: Reader): Following {
  const at = Math.min(...items.map((item) => item.at));
  const ahead = items.filter((item) => item.at > at).map((item) => ({ mask: maskOf([item.projection]), at: item.at }));
  return { phase: 'follow', at, ahead, owed: format.complete };
}

function follow(cursor: Following, reader: Reader, view: View): Step {
  const { ring } = view;
  if (cursor.at >= ring.head) return cursor.owed ? complete(cursor, reader, ring) : { do: 'rest' };
  if (ring.covers(cursor.at)) {
    if (cursor.ahead.length > 0) return send(...merged(cursor, reader, ring, ring.after(cursor.at), ring.head));
    const selection = { mask: reader.mask, format: reader.format, newest: false };
    const batch = view.batches.after(cursor.at, selection, reader.user);
    return send(batch, { phase: 'follow', at: batch.through, ahead: [], owed: owes(cursor, reader, batch, ring) });
  }
  const parts = [];
  for (const projection of reader.projections) {
    const need = { projection, deletions: true, after: cursor.at };
    const part = view.listings.peek(need);
    if (part === undefined) return { do: 'read', need };
    parts.push(part);
  }
  const through = Math.min(...parts.map((part) => part.through));
  const frames = parts.flatMap((part) => part.frames).filter((frame) => frame.revision <= through);
  return send(
    ...merged(
      cursor,
      reader,
      ring,
      frames.toSorted((a, b) => a.revision - b.revision),
      through,
    ),
  );
}

function merged(
  cursor: Following,
  reader: Reader,
  ring: Ring,
  frames: Parameters<typeof collect>[0],
  through: number,
): readonly [Batch, Following] {
  const batch = collect(frames, {
    accept: (frame) =>
      (frame.mask & reader.mask) !== 0 &&
      !cursor.ahead.some((kind) => kind.mask === frame.mask && frame.revision <= kind.at),
    reader: reader.user,
    format: reader.format,
    tokens: ring.tokens,
    newest: false,
    through,
    head: ring.head,
  });
  const ahead = cursor.ahead.filter((kind) => kind.at > batch.through);
  return [batch, { phase: 'follow', at: batch.through, ahead, owed: owes(cursor, reader, batch, ring) }];
}

const send = (batch: Batch, to: Cursor): Step => ({ do: 'send', bytes: batch.bytes, events: batch.events, to });

/** Whether a reader that is sent this batch has yet to be sent that it is complete. A batch that reaches the head says so itself. */
function owes({ owed }: Following, { format }: Reader, { bytes, through }: Batch, { head }: Ring): boolean {
  if (!format.complete) return false;
  return bytes === undefined ? owed : through < head;
}

function complete(cursor: Following, { format }: Reader, { tokens }: Ring): Step {
  const bytes = encode(completeLine(cursor.at, format, tokens), format.chunked);
  return { do: 'send', bytes, events: 0, to: { ...cursor, owed: false } };
}
