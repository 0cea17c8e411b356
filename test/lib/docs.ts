/** Owns reading the docs as data: the clauses of the reference, who cites which, and where links lead. */
import { posix } from 'node:path';

/** Every clause of the reference, as it is cited: `1.2`, `1.2 (15)`, `1.2 (15) (a)`, `1.1 (c)`. */
export function clausesOf(reference: string): ReadonlySet<string> {
  const clauses = new Set<string>();
  let section = '';
  let number = '';
  for (const line of reference.split('\n')) {
    const heading = /^#{2,3} (\d+(?:\.\d+)?)\.? /.exec(line)?.[1];
    const numbered = /^(\d+)\. /.exec(line)?.[1];
    const lettered = /^\s*- \(([a-z])\) /.exec(line)?.[1];
    if (heading !== undefined) {
      section = heading;
      number = '';
      clauses.add(section);
    } else if (section !== '' && numbered !== undefined) {
      number = ` (${numbered})`;
      clauses.add(`${section}${number}`);
    } else if (section !== '' && lettered !== undefined) {
      clauses.add(`${section}${number} (${lettered})`);
    }
  }
  return clauses;
}

const citation = /\breference ((?:\d+(?:\.\d+)?|\(\d+\)|\([a-z]\)|, | and | phase I{1,3}\b|–| )+)/g;
const part = /(\d+(?:\.\d+)?)(?![)\d])|\((\d+)\)|\(([a-z])\)/g;

/** Every clause that a text cites: `reference 1.2 (2), (3) and 7 (1)` cites three. Of a span `(4)–(8)`, both ends. */
export function citationsIn(text: string): readonly string[] {
  // A citation may be broken over the lines of a comment.
  const flowing = text.replaceAll(/\n\s*(?:\/\/|\*)?\s*/g, ' ');
  return [...flowing.matchAll(citation)].flatMap(([, clauses = '']) => {
    const cited: string[] = [];
    let section = '';
    for (const [, newSection, number, letter] of clauses.matchAll(part)) {
      if (newSection !== undefined) cited.push((section = newSection));
      else if (number !== undefined) cited.push(`${section} (${number})`);
      else cited.push(`${cited.at(-1) ?? section} (${letter})`);
    }
    return cited;
  });
}

export interface Link {
  /** The file it leads to, relative to the repository. */
  readonly file: string;
  readonly anchor: string | undefined;
}

const withoutCode = (markdown: string): string =>
  markdown.replaceAll(/^```[\s\S]*?^```/gm, '').replaceAll(/`[^`\n]*`/g, '');

/** The links of a page that stay inside the repository. */
export function linksIn(page: string, markdown: string): readonly Link[] {
  return [...withoutCode(markdown).matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, target = '']) => {
    if (/^[a-z]+:/.test(target)) return [];
    const [path = '', anchor] = target.split('#');
    return [{ file: path === '' ? page : posix.join(posix.dirname(page), path), anchor }];
  });
}

/** The anchors of a page's headings, as they are made from their words. */
export function anchorsOf(markdown: string): ReadonlySet<string> {
  const headings = markdown.replaceAll(/^```[\s\S]*?^```/gm, '').matchAll(/^#{1,6} (.+)$/gm);
  return new Set(
    [...headings].map(([, title = '']) =>
      title
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  );
}

/** Whether a test file has the title that a page names. One that ends with `…` is the beginning of one title, and of no other in the file. */
export function hasTitle(testFile: string, title: string): boolean {
  // The formatter puts a long title on a line of its own, and one with an apostrophe between double quotes.
  const text = testFile.replaceAll(/\(\s+(?=['"])/g, '(');
  if (!title.endsWith('…')) return text.includes(`('${title}',`) || text.includes(`("${title}",`);
  const beginning = title.slice(0, -1);
  return text.split(`('${beginning}`).length + text.split(`("${beginning}`).length === 3;
}
