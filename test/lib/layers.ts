/** Owns the check of the house's order: which room a source belongs to, what it imports, and what is wrong with that. */
import { readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { posix } from 'node:path';
import { parseSync } from 'vite';

/** One room of the house and what may stand in it. */
export interface Room {
  /** Other rooms it may import from. */
  readonly may: readonly string[];
  /** Rooms of which, and of the rooms within them, it may import types alone, by `import type`. */
  readonly types?: readonly string[];
  /**
   * npm packages it may import; an entry ending in `/` means a whole scope. `any` is for rooms that are bundled anyway.
   */
  readonly npm: readonly string[] | 'any';
  /** Whether Node's own modules may be imported. */
  readonly node: boolean;
  /** Whether it may start processes. */
  readonly processes?: true;
  /** Whether it may speak SQL. */
  readonly sql?: true;
  readonly why: string;
}

/** Keyed by path below `src/`: a folder, or one file that is a room of its own. The longest fitting key wins. */
export type Rooms = Readonly<Record<string, Room>>;

export interface Source {
  /** Relative to the repository, with `/`. */
  readonly path: string;
  readonly text: string;
}

const builtins = new Set(builtinModules.map((name) => name.replace(/^node:/, '')));
const startsProcesses = new Set(['child_process', 'cluster']);
const sqlClients = new Set(['pg', 'kysely', 'postgres', 'knex', 'drizzle-orm']);
/** Names for files that depend on the platform. The file for every platform says which room they belong to. */
const { imports: aliases } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  readonly imports: Readonly<Record<string, { readonly default: string }>>;
};
/** Tests, fixtures and contract suites: they may use what they need; nothing may use them. */
export const isTest = (path: string): boolean => /\.(test|fixture|contract)\.(ts|tsx)$/.test(path);

/** What else than a statement can load a module. The parser lists the statements by itself; to visit the whole tree takes ten times as long. */
const otherLoads = /\bimport\s*[(/]|\brequire\b|getBuiltinModule/;

/** A source is asked several times. */
const known = new WeakMap<Source, readonly (string | undefined)[]>();

/** `undefined` marks an import whose target is computed. */
export function importsOf(source: Source): readonly (string | undefined)[] {
  const found = known.get(source) ?? findImports(source);
  known.set(source, found);
  return found;
}

function findImports({ path, text }: Source): readonly (string | undefined)[] {
  const parsed = parseSync(path, text);
  if (parsed.errors.length > 0) throw new Error(`${path} does not parse: ${parsed.errors[0]?.message}`);
  if (!otherLoads.test(text)) {
    const { staticImports, staticExports } = parsed.module;
    const exported = staticExports.flatMap(({ entries }) => entries.flatMap((entry) => entry.moduleRequest ?? []));
    return [...staticImports.map(({ moduleRequest }) => moduleRequest), ...exported].map(({ value }) => value);
  }
  const found: (string | undefined)[] = [];
  visit(parsed.program, (node) => {
    const target = importTarget(node);
    if (target !== 'none') found.push(literal(target));
  });
  return found;
}

type SyntaxNode = Readonly<Record<string, unknown>>;
const isNode = (value: unknown): value is SyntaxNode => typeof value === 'object' && value !== null;

export function visit(value: unknown, see: (node: SyntaxNode) => void): void {
  if (Array.isArray(value)) for (const item of value) visit(item, see);
  else if (isNode(value)) {
    if (typeof value['type'] === 'string') see(value);
    for (const child of Object.values(value)) if (typeof child === 'object') visit(child, see);
  }
}

/** The expression that names a module, if this node loads one; types count, because they tie rooms together too. */
function importTarget(node: SyntaxNode): unknown {
  switch (node['type']) {
    case 'ImportDeclaration':
    case 'ImportExpression':
    case 'TSImportType':
      return node['source'] ?? node['argument'];
    case 'ExportNamedDeclaration':
    case 'ExportAllDeclaration':
      return node['source'] ?? 'none';
    case 'TSExternalModuleReference':
      return node['expression'];
    case 'CallExpression':
      return loads(node['callee']) ? (node['arguments'] as readonly unknown[])[0] : 'none';
    default:
      return 'none';
  }
}

/** `require(…)`, and `getBuiltinModule(…)` of whatever object. */
function loads(callee: unknown): boolean {
  if (!isNode(callee)) return false;
  if (callee['type'] === 'Identifier') return callee['name'] === 'require';
  return isNode(callee['property']) && callee['property']['name'] === 'getBuiltinModule';
}

function literal(node: unknown): string | undefined {
  if (!isNode(node)) return undefined;
  if (isNode(node['literal'])) return literal(node['literal']);
  return typeof node['value'] === 'string' ? node['value'] : undefined;
}

/** The key of the room that a path below `src/` belongs to. */
export function roomOf(rooms: Rooms, path: string): string | undefined {
  const inside = path.replace(/^src\//, '');
  return Object.keys(rooms)
    .filter((key) => inside === key || inside.startsWith(`${key}/`))
    .toSorted((a, b) => b.length - a.length)[0];
}

/** Every wrong arrow, one sentence each. Tests, fixtures and contract suites may use what they need; nothing may use them. */
export function wrongArrows(rooms: Rooms, sources: readonly Source[]): readonly string[] {
  return sources.flatMap((source) => {
    if (!source.path.startsWith('src/') || isTest(source.path)) return [];
    const key = roomOf(rooms, source.path);
    const room = key === undefined ? undefined : rooms[key];
    if (key === undefined || room === undefined) return [`${source.path} stands in no room: give it one in the map`];
    const onlyTypes = typesOnly(source);
    return importsOf(source).flatMap((target) => {
      if (target !== undefined && onlyTypes.has(target) && isTypeOf(rooms, room, source, target)) return [];
      const wrong =
        target === undefined ? 'what is computed at run time' : wrongImport(rooms, key, room, source, target);
      return wrong === undefined ? [] : [`${source.path} must not import ${wrong} (${key}: ${room.why})`];
    });
  });
}

/** The targets that a source names in `import type` and in no other way. */
function typesOnly({ path, text }: Source): ReadonlySet<string> {
  if (!text.includes('import type')) return new Set();
  const byType = [...text.matchAll(/^import type [^;]*? from '([^']*)';$/gm)].map(([, target = '']) => target);
  const others = importsOf({ path, text: text.replaceAll(/^import type [^;]*;$/gm, '') });
  return new Set(byType.filter((target) => !others.includes(target)));
}

function isTypeOf(rooms: Rooms, { types = [] }: Room, source: Source, target: string): boolean {
  if (!target.startsWith('.')) return false;
  const path = posix.join(posix.dirname(source.path), target);
  const other = roomOf(rooms, path) ?? '';
  return !isTest(path) && types.some((room) => other === room || other.startsWith(`${room}/`));
}

function wrongImport(rooms: Rooms, key: string, room: Room, source: Source, target: string): string | undefined {
  if (target.startsWith('.')) return wrongFile(rooms, key, room, posix.join(posix.dirname(source.path), target));
  const alias = aliases[target];
  if (alias !== undefined) return wrongFile(rooms, key, room, posix.normalize(alias.default));
  if (target.startsWith('/') || target.startsWith('#') || target.includes(':')) {
    if (!target.startsWith('node:')) return `${target}, which is no relative path and no package`;
  }
  const bare = target.replace(/^node:/, '');
  const name = packageName(bare);
  if (target.startsWith('node:') || builtins.has(bare) || builtins.has(name)) {
    if (!room.node) return `${target}: this room knows nothing of Node`;
    if (startsProcesses.has(name) && room.processes !== true) return `${target}: this room starts no processes`;
    return undefined;
  }
  if (sqlClients.has(name) && room.sql !== true) return `${target}: this room speaks no SQL`;
  if (room.npm === 'any' || room.npm.some((npm) => npm === name || (npm.endsWith('/') && name.startsWith(npm)))) {
    return undefined;
  }
  return `the npm package ${name}`;
}

function wrongFile(rooms: Rooms, key: string, room: Room, path: string): string | undefined {
  if (!path.startsWith('src/')) return `${path}, which lies outside src`;
  if (isTest(path)) return `${path}, which is a test`;
  const other = roomOf(rooms, path);
  if (other === undefined) return `${path}, which stands in no room`;
  return other === key || room.may.includes(other) ? undefined : `${path}: there is no arrow from ${key} to ${other}`;
}

function packageName(target: string): string {
  const [first = '', second = ''] = target.split('/');
  return first.startsWith('@') ? `${first}/${second}` : first;
}

/** A way round in the map, or `undefined`. Without one, rooms whose arrows are right cannot import each other in a circle. */
export function cycleIn(rooms: Rooms): readonly string[] | undefined {
  const done = new Set<string>();
  const walk = (key: string, path: readonly string[]): readonly string[] | undefined => {
    const at = path.indexOf(key);
    if (at >= 0) return [...path.slice(at), key];
    if (done.has(key)) return undefined;
    const { may = [], types = [] } = rooms[key] ?? {};
    for (const next of [...may, ...types]) {
      const cycle = walk(next, [...path, key]);
      if (cycle !== undefined) return cycle;
    }
    done.add(key);
    return undefined;
  };
  for (const key of Object.keys(rooms)) {
    const cycle = walk(key, []);
    if (cycle !== undefined) return cycle;
  }
  return undefined;
}

/** The paths of files that do not open with a doc comment holding a sentence. */
export function withoutOpening(sources: readonly Source[]): readonly string[] {
  const opens = ({ text }: Source): boolean => {
    const comment = /^(?:#![^\n]*\n)?\/\*\*([\s\S]*?)\*\//.exec(text)?.[1] ?? '';
    const sentence = comment.replaceAll(/^\s*\*/gm, ' ').trim();
    return sentence.length >= 20 && /[.:!?)]/.test(sentence);
  };
  return sources.filter((source) => !opens(source)).map((source) => source.path);
}
