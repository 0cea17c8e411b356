/** Owns ids in short: as lists and sentences show them. */

/** The end of an id. Ids begin with the time they were made at, so that those of one day begin alike. */
export const shortId = (id: string): string => id.slice(-8);
