/** Owns the states of a stream and every transition between them, as a table. */

/**
 * `ready`: has something to do, waits to be served. `live`: has everything. `blocked`: the connection takes no more.
 * `reading`: waits for the database. `ending`: was sent its end, waits for the connection to close. `closed`: is over.
 */
export type StreamState = 'ready' | 'live' | 'blocked' | 'reading' | 'ending' | 'closed';

/**
 * `behind`: there is more to send. `caught_up`: everything was sent. `full`: the connection did not take all bytes. `flushed`: it has
 * taken them. `read`: the database is being read for it. `loaded`: that was read, or is to be tried again. `end`: it is sent its end.
 * `close`: the connection has closed.
 */
export type StreamEvent = 'behind' | 'caught_up' | 'full' | 'flushed' | 'read' | 'loaded' | 'end' | 'close';

/** An event that means nothing in a state leaves it as it is: a stream that ends is beyond what its database read brings. */
const transitions: { readonly [From in StreamState]: { readonly [E in StreamEvent]: StreamState } } = {
  ready: {
    behind: 'ready',
    caught_up: 'live',
    full: 'blocked',
    flushed: 'ready',
    read: 'reading',
    loaded: 'ready',
    end: 'ending',
    close: 'closed',
  },
  live: {
    behind: 'ready',
    caught_up: 'live',
    full: 'blocked',
    flushed: 'live',
    read: 'reading',
    loaded: 'live',
    end: 'ending',
    close: 'closed',
  },
  blocked: {
    behind: 'blocked',
    caught_up: 'blocked',
    full: 'blocked',
    flushed: 'ready',
    read: 'blocked',
    loaded: 'blocked',
    end: 'ending',
    close: 'closed',
  },
  reading: {
    behind: 'reading',
    caught_up: 'reading',
    full: 'blocked',
    flushed: 'reading',
    read: 'reading',
    loaded: 'ready',
    end: 'ending',
    close: 'closed',
  },
  ending: {
    behind: 'ending',
    caught_up: 'ending',
    full: 'ending',
    flushed: 'ending',
    read: 'ending',
    loaded: 'ending',
    end: 'ending',
    close: 'closed',
  },
  closed: {
    behind: 'closed',
    caught_up: 'closed',
    full: 'closed',
    flushed: 'closed',
    read: 'closed',
    loaded: 'closed',
    end: 'closed',
    close: 'closed',
  },
};

export const nextState = (state: StreamState, event: StreamEvent): StreamState => transitions[state][event];

/** Whether documents may still be sent. */
export const isOpen = (state: StreamState): boolean => state !== 'ending' && state !== 'closed';
