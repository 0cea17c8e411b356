/** Owns how lists are paged, and how a write names the revision that it expects. */

export interface Page {
  /** At most this many; absent: all. */
  readonly limit?: number | undefined;
  /** Only records whose id is greater than this. */
  readonly after?: string | undefined;
  /** The rows before the last one are smaller than this altogether, as they are stored; absent: any size. */
  readonly bytes?: number | undefined;
}

/** Rows of a page in their order. */
export interface Rows<T> extends ReadonlyArray<T> {
  /** `bytes` ended them: rows that the limit admits were left out. */
  readonly isCut?: true;
}

export interface RevisionPage extends Page {
  /** Only records with a greater revision. */
  readonly gt_revision?: number | undefined;
}

/** `if_match`: the revision that the caller believes to be current; another one fails with `precondition_failed`. */
export interface Expected {
  readonly if_match?: number | undefined;
}
