/** Owns the search of the command palette: the matches for a few letters, the best first. */

export interface Command {
  readonly id: string;
  readonly kind: 'page' | 'action' | 'device' | 'group';
  readonly name: string;
  /** What also finds it: an address, other words. */
  readonly keywords: string;
}

const kindOrder: { readonly [K in Command['kind']]: number } = { page: 0, action: 1, group: 2, device: 3 };

/** The rank of a command; smaller is better. Undefined where a word does not occur. */
function rank({ name, keywords, kind }: Command, words: readonly string[]): number | undefined {
  const lower = name.toLowerCase();
  const text = `${lower} ${keywords.toLowerCase()}`;
  let score = kindOrder[kind];
  for (const word of words) {
    const at = text.indexOf(word);
    if (at === -1) return undefined;
    if (lower === word) score -= 40;
    else if (at === 0) score -= 20;
    else if (lower.includes(word)) score -= 10;
  }
  return score;
}

/** At most so many, the best first; with nothing typed, what `untyped` says. */
export function findCommands(
  commands: Iterable<Command>,
  text: string,
  most: number,
  untyped: 'pages and actions' | 'devices too' = 'pages and actions',
): readonly Command[] {
  const words = text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
  const found: { readonly command: Command; readonly score: number }[] = [];
  for (const command of commands) {
    if (
      untyped === 'pages and actions' &&
      words.length === 0 &&
      (command.kind === 'device' || command.kind === 'group')
    )
      continue;
    const score = rank(command, words);
    if (score !== undefined) found.push({ command, score });
  }
  return found
    .toSorted((a, b) => a.score - b.score)
    .slice(0, most)
    .map(({ command }) => command);
}

/** What can be done with a device from the palette. */
export const deviceVerbs = ['explain', 'flows', 'isolate', 'copy'] as const;
export type DeviceVerb = (typeof deviceVerbs)[number];

/** Reads `isolate db-1`: the verb, or the beginning of one, and what is left. */
export function readVerb(text: string): { readonly verb: DeviceVerb; readonly rest: string } | undefined {
  const words = text.toLowerCase().trimStart();
  const end = words.search(/\s/);
  if (end < 3) return undefined;
  const verb = deviceVerbs.find((one) => one.startsWith(words.slice(0, end)));
  return verb === undefined ? undefined : { verb, rest: words.slice(end).trimStart() };
}
