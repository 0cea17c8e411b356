/** Owns batches: the bytes for streams at one cursor, built once for all of them. */
import type { UserId } from '../../policy/ids.ts';
import { visible, type Frame, type Mask } from '../store/follow/frame.ts';
import type { Ring } from '../store/follow/ring.ts';
import type { RevisionTokens } from '../store/follow/revision-tokens.ts';
import { completeLine, encode, formatCount, formatKey, lineOf, type Format } from './wire.ts';

export interface Batch {
  /** The cursor of a stream after it was sent this batch. */
  readonly through: number;
  /** Undefined when nothing in between is for this reader. */
  readonly bytes: Buffer | undefined;
  readonly events: number;
}

/** What a stream is to be sent of the events that it has not seen. */
export interface Selection {
  readonly mask: Mask;
  readonly format: Format;
  /** Only the newest state of each resource (a resume), or every state (a stream that follows). */
  readonly newest: boolean;
}

const selections = new Map<number, Selection>();

const variantOf = ({ mask, format, newest }: Selection): number =>
  mask * formatCount * 2 + formatKey(format) * 2 + (newest ? 1 : 0);

/** One object for all streams with the same selection, so that a round over thousands of them makes one batch. */
export function sharedSelection(selection: Selection): Selection {
  const known = selections.get(variantOf(selection));
  if (known !== undefined) return known;
  selections.set(variantOf(selection), selection);
  return selection;
}

/** About what one write should carry: enough to make the system call worth it, little enough to hold back for a slow reader. */
export const batchBytes = 65_536;

/** The lines that a reader sees of these frames, up to about `batchBytes` and never ending inside a revision. */
export function collect(
  frames: Iterable<Frame>,
  options: {
    readonly accept: (frame: Frame) => boolean;
    readonly reader: UserId | undefined;
    readonly format: Format;
    readonly tokens: RevisionTokens;
    readonly newest: boolean;
    /** Where the frames end, when the limit does not end them earlier. */
    readonly through: number;
    /** Where a transaction ends: what reaches it is complete. */
    readonly head: number;
  },
): Batch {
  const lines = new Map<string | number, string>();
  let size = 0;
  let last = 0;
  let through = options.through;
  for (const frame of frames) {
    if (size >= batchBytes && frame.revision !== last) {
      through = last;
      break;
    }
    last = frame.revision;
    if (!options.accept(frame) || !visible(frame, options.reader)) continue;
    const key = options.newest ? frame.id : lines.size;
    const line = lineOf(frame, options.format, options.tokens);
    size += line.length - (lines.get(key)?.length ?? 0);
    lines.delete(key);
    lines.set(key, line);
  }
  if (lines.size === 0) return { through, bytes: undefined, events: 0 };
  const { format, tokens, head } = options;
  const end = format.complete && through >= head ? completeLine(through, format, tokens) : '';
  return { through, bytes: encode([...lines.values()].join('') + end, format.chunked), events: lines.size };
}

interface Memo {
  readonly batch: Batch;
  /** The readers to whom these frames look different. */
  readonly owners: ReadonlySet<UserId>;
  readonly personal: Map<UserId, Batch>;
}

/** Slow streams at many cursors must not make the memo a queue of its own. */
const memoBytes = 4 * 1_048_576;

/** Batches of one ring, cached until its head moves. */
export class Batches {
  readonly #ring: Ring;
  #head = -1;
  #bytes = 0;
  readonly #memo = new Map<number, Map<number, Memo>>();
  /** The last batch made, which the next stream of a round most likely needs too. Absent where readers see different things. */
  #last: { readonly revision: number; readonly selection: Selection; readonly batch: Batch } | undefined;

  constructor(ring: Ring) {
    this.#ring = ring;
  }

  /** The last batch made, where it is what every reader with this cursor and selection is to be sent. */
  shared(revision: number, selection: Selection | undefined): Batch | undefined {
    if (this.#head !== this.#ring.head) return undefined;
    return this.#last?.revision === revision && this.#last.selection === selection ? this.#last.batch : undefined;
  }

  /** What a reader whose cursor the ring covers is to be sent. Readers with the same rights get the same buffer. */
  after(revision: number, selection: Selection, reader: UserId | undefined): Batch {
    if (this.#head !== this.#ring.head || this.#bytes > memoBytes) this.#forget();
    const known = this.shared(revision, selection);
    if (known !== undefined) return known;
    const variant = variantOf(selection);
    let byCursor = this.#memo.get(variant);
    if (byCursor === undefined) this.#memo.set(variant, (byCursor = new Map()));
    let memo = byCursor.get(revision);
    if (memo === undefined) byCursor.set(revision, (memo = this.#make(revision, selection)));
    if (memo.owners.size === 0) this.#last = { revision, selection, batch: memo.batch };
    if (reader === undefined || !memo.owners.has(reader)) return memo.batch;
    let batch = memo.personal.get(reader);
    if (batch === undefined) memo.personal.set(reader, (batch = this.#collect(revision, selection, reader)));
    return batch;
  }

  #make(revision: number, selection: Selection): Memo {
    const batch = this.#collect(revision, selection, undefined);
    const owners = new Set<UserId>();
    for (const frame of this.#ring.after(revision)) {
      if (frame.owner !== undefined && (frame.mask & selection.mask) !== 0) owners.add(frame.owner);
    }
    return { batch, owners, personal: new Map() };
  }

  #collect(revision: number, selection: Selection, reader: UserId | undefined): Batch {
    const batch = collect(this.#ring.after(revision), {
      accept: (frame) => (frame.mask & selection.mask) !== 0,
      reader,
      format: selection.format,
      tokens: this.#ring.tokens,
      newest: selection.newest,
      through: this.#ring.head,
      head: this.#ring.head,
    });
    this.#bytes += batch.bytes?.length ?? 0;
    return batch;
  }

  #forget(): void {
    this.#head = this.#ring.head;
    this.#bytes = 0;
    this.#last = undefined;
    this.#memo.clear();
  }
}
