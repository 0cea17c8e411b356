/** Owns the measures of the house: circles between files, and private parts of others. */
import { posix } from 'node:path';
import { importsOf, isTest, type Source } from './layers.ts';

/** Files that import each other in a circle, each circle sorted; imports of types count, because they tie files together too. */
export function circlesBetween(sources: readonly Source[]): readonly (readonly string[])[] {
  const known = new Set(sources.map((source) => source.path));
  const targets = new Map(
    sources.map((source) => {
      const folder = posix.dirname(source.path);
      const relative = importsOf(source).filter((target) => target?.startsWith('.') === true);
      const paths = relative.map((target) => posix.join(folder, target ?? ''));
      return [source.path, paths.filter((path) => known.has(path))];
    }),
  );
  return strongComponents(targets).filter(
    (component) => component.length > 1 || component.some((path) => targets.get(path)?.includes(path)),
  );
}

/** Tarjan's algorithm: the largest sets of nodes in which each reaches each other. */
function strongComponents(edges: ReadonlyMap<string, readonly string[]>): readonly (readonly string[])[] {
  const components: (readonly string[])[] = [];
  const number = new Map<string, number>();
  const stack: string[] = [];
  const open = new Set<string>();
  const walk = (node: string): number => {
    const mine = number.size;
    number.set(node, mine);
    stack.push(node);
    open.add(node);
    let lowest = mine;
    for (const next of edges.get(node) ?? []) {
      if (!number.has(next)) lowest = Math.min(lowest, walk(next));
      else if (open.has(next)) lowest = Math.min(lowest, number.get(next) ?? mine);
    }
    if (lowest === mine) {
      const component = stack.splice(stack.indexOf(node));
      for (const member of component) open.delete(member);
      components.push(component.toSorted());
    }
    return lowest;
  };
  for (const node of edges.keys()) if (!number.has(node)) walk(node);
  return components;
}

/** How code reaches for what a library or Node keeps to itself: a member that begins with an underscore, however it is read or written, and Node's own bindings. */
const privateParts = [
  /\.\s*_[A-Za-z]\w*/g,
  /\{\s*_[A-Za-z]\w*\s*\??:/g,
  /\[\s*['"`]_[A-Za-z]\w*/g,
  /\bprocess\s*\.\s*binding\b/g,
];

/** Uses of private parts, as `path: text`; comments count too. */
export const privateUses = (sources: readonly Source[]): readonly string[] =>
  sources.flatMap(({ path, text }) =>
    privateParts.flatMap((part) => [...text.matchAll(part)].map(([found]) => `${path}: ${found.replace(/\s+/g, ' ')}`)),
  );

/** How code works out for itself whom a selector names, or which groups a device has. Two lists of labels may be compared with `filter`. */
const decidingParts = [
  /\bimport\s+\{[^}]*\b(?:matches|matchesAny|isNamed)\b[^}]*\}\s+from\s+'[^']*policy\/fleet\/selector\.ts'/,
  /\bimport\s+\{[^}]*\bselectGroups\b[^}]*\}\s+from\s+'[^']*policy\/effective\.ts'/,
  /\.(?:every|some)\(\(label\) => !?[\w.?]*\.(?:includes|has)\(label\)\)/,
  /[lL]abels\??\.(?:every|some)\(\((\w+)\) => !?[\w.?]*\.(?:includes|has)\(\1\)\)/,
];

/** Files outside of the rooms that decide these (`policy` and `organization`). */
export const ownDecisions = (sources: readonly Source[]): readonly string[] =>
  sources
    .filter(({ path }) => !/^src\/(policy|organization)\//.test(path) && !isTest(path))
    .filter(({ text }) => decidingParts.some((part) => part.test(text)))
    .map(({ path }) => path);
