/** Owns the interface of what is kept for a limited time. */

/** One kind of rows. */
export interface Retention {
  readonly what: string;
  /** Removes what is no longer kept, or adds it up. Several servers may do it at once. */
  forget(): Promise<void>;
}
