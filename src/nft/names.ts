/** Owns the names that may occur in nft text: each kind has one parser, and nothing else makes one. */

declare const brand: unique symbol;
type Name<Kind extends string> = string & { readonly [brand]: Kind };

/** A network interface, as the kernel names it. */
export type InterfaceName = Name<'InterfaceName'>;
/** A chain, set or other object of our table whose name nft's grammar can hold bare. */
export type ObjectName = Name<'ObjectName'>;

/** Thrown by the parsers below. */
export class BadName extends Error {
  readonly code = 'bad_name';
}

/** Longest interface name in bytes: the kernel's IFNAMSIZ less its final NUL. */
const longestInterface = 15;
/** Spaces and control characters of any script, quotes, and what the kernel itself refuses: `/` and `:`. */
const forbidden = /[\s\p{Cc}\p{Zs}\p{Zl}\p{Zp}\p{Cs}"'`/:]/u;

const utf8Length = (text: string): number =>
  [...text].reduce((bytes, c) => {
    const point = c.codePointAt(0) ?? 0;
    return bytes + (point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x1_0000 ? 3 : 4);
  }, 0);

/** The interface name that the text is. A trailing `*` would be a wildcard to nft, so it is refused. */
export function parseInterfaceName(text: unknown): InterfaceName {
  if (typeof text !== 'string') throw new BadName('an interface name must be a string');
  const refuse = (why: string): never => {
    throw new BadName(`${JSON.stringify(text.slice(0, 40))} is no interface name: ${why}`);
  };
  // The length comes first, so that a huge text is never walked.
  if (text.length === 0 || text.length > longestInterface || utf8Length(text) > longestInterface)
    refuse(`it must have 1 to ${longestInterface} bytes`);
  if (forbidden.test(text)) refuse('it holds a space, a control character, a quote, "/" or ":"');
  if (text === '.' || text === '..') refuse('the kernel reserves it');
  if (text.endsWith('*')) refuse('a trailing "*" would match other interfaces too');
  return text as InterfaceName;
}

const bare = /^[A-Za-z][A-Za-z0-9_./-]{0,126}$/;

/** Whether nft's grammar can hold the name bare. Programs may make objects with other names through netlink. */
export const isObjectName = (text: string): text is ObjectName => bare.test(text);

export function parseObjectName(text: string): ObjectName {
  if (!isObjectName(text)) throw new BadName(`${JSON.stringify(text.slice(0, 40))} cannot be written as an nft name`);
  return text;
}
