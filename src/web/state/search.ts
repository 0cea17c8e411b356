/** Owns what the URL of a page says behind its question mark. */

export const anyText = (): boolean => true;

/** Of these names those whose text has a meaning; what else somebody wrote into the address bar is left out. The router reads numbers as such. */
export const readSearch = <Name extends string>(
  search: Readonly<Record<string, unknown>>,
  valid: { readonly [N in Name]: (text: string) => boolean },
): { readonly [N in Name]?: string } =>
  Object.fromEntries(
    (Object.keys(valid) as Name[]).flatMap((name) => {
      const value = search[name];
      const text = typeof value === 'number' || typeof value === 'boolean' ? String(value) : value;
      return typeof text === 'string' && text !== '' && valid[name](text) ? [[name, text] as const] : [];
    }),
  ) as { readonly [N in Name]?: string };
