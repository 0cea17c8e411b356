/** Owns the names of the kinds of records that can be watched, and the stream's content type. */

export const watchKinds = ['device', 'security-groups'] as const;
export type WatchKind = (typeof watchKinds)[number];

/** Bytes of one document of the stream that a client takes. */
export const largestDocument = 16 * 1024 * 1024;

export const watchContentType = 'application/json;stream=watch';

/** Seconds of silence after which the server sends a heartbeat on a stream. */
export const heartbeatHeader = 'Heartbeat-Interval';

/** What a reader says in `Prefer` that wants to be asked for its word: lines of the type `report` between documents. */
export const reportPreference = 'report-lines';

/**
 * What a reader says in `Prefer` that shows signs of life by itself. The server answers in `Preference-Applied` with the seconds between two signs, and
 * with those after which it sends a heartbeat.
 */
export const signsPreference = 'signs-of-life';
export const heartbeatPreference = 'heartbeat';

/** What a reader says in `Prefer` that wants the token of each revision, to resume with both. */
export const tokensPreference = 'history-tokens';

/** What a reader says in `Prefer` that wants to know when no change is half sent: lines of the type `complete` between documents. */
export const completePreference = 'complete-lines';

/** What a reader says in `Prefer` that knows another server: its stream ends when this server cannot reach its database. */
export const readyPreference = 'end-when-not-ready';

/** The protocol that a stream becomes by `Upgrade`: the same lines, without chunks, and the reader sends a line feed as a sign of life. */
export const watchProtocol = 'ringfence-watch';

/** The last line of such a stream that comes to a proper end. */
export const endLine = '{"type":"end"}';
