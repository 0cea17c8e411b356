/** Owns the mark of a listener that stays on a socket when the socket becomes a stream's. */

/** A listener of `close` with this property is not taken off with those of the HTTP server. */
export const keptOnTakeOver = Symbol('kept on take-over');
