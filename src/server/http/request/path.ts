/** Owns the path of a request, without the query, which may hold secrets. */

export const pathOf = (url: string): string => url.split('?', 1)[0] ?? url;
