/** Owns the names of what can be watched and of the stream's content type. */

export const watchKinds = ['device', 'security-groups'] as const;
export type WatchKind = (typeof watchKinds)[number];

export const watchContentType = 'application/json;stream=watch';

/** What a reader says in `Prefer` that wants to be asked for its word: lines of the type `report` between documents. */
export const reportPreference = 'report-lines';
