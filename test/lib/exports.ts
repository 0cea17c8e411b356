/** Owns the search for exported names that no other file uses. */
import { posix } from 'node:path';
import { parseSync } from 'vite';
import { visit, type Source } from './layers.ts';

/** What one file offers, and what it takes from others: by name, or all of it (`*`). */
interface Names {
  readonly offers: readonly string[];
  readonly takes: readonly (readonly [target: string, name: string])[];
  /** Whether the file's own declarations mention this type: then it is a part of what they say to others. */
  readonly mentions: (type: string) => boolean;
}

/** What the parser calls a name that is imported or exported: a name, `default`, or everything. */
function nameOf({ kind, name }: { readonly kind: string; readonly name: string | null }): string {
  if (kind === 'Default') return 'default';
  return kind === 'Name' ? (name ?? '*') : '*';
}

function namesOf({ path, text }: Source): Names {
  const parsed = parseSync(path, text);
  const takes: [string, string][] = [];
  const offers: string[] = [];
  for (const { moduleRequest, entries } of parsed.module.staticImports) {
    for (const { importName } of entries) takes.push([moduleRequest.value, nameOf(importName)]);
  }
  for (const { exportName, importName, moduleRequest } of parsed.module.staticExports.flatMap(
    ({ entries }) => entries,
  )) {
    if (moduleRequest !== null) takes.push([moduleRequest.value, nameOf(importName)]);
    if (exportName.kind !== 'None') offers.push(nameOf(exportName));
  }
  // Of most files the tree need not be visited, which takes ten times as long as the rest.
  if (/\bimport\s*[(/]/.test(text)) {
    visit(parsed.program, (node) => {
      if (node['type'] !== 'ImportExpression' && node['type'] !== 'TSImportType') return;
      const { value } = (node['source'] ?? node['argument']) as { readonly value?: unknown };
      if (typeof value === 'string') takes.push([value, '*']);
    });
  }
  let words: ReturnType<typeof wordsOf> | undefined;
  const mentions = (type: string): boolean => {
    words ??= wordsOf(parsed.program);
    return words.types.has(type) && (words.times.get(type) ?? 0) > 1;
  };
  return { offers, takes, mentions };
}

/** How often each name stands in a file, and which of them are types of its own. */
function wordsOf(program: unknown): {
  readonly types: ReadonlySet<unknown>;
  readonly times: ReadonlyMap<unknown, number>;
} {
  const types = new Set<unknown>();
  const times = new Map<unknown, number>();
  visit(program, (node) => {
    if (node['type'] === 'TSInterfaceDeclaration' || node['type'] === 'TSTypeAliasDeclaration')
      types.add((node['id'] as { readonly name: string }).name);
    else if (node['type'] === 'Identifier') times.set(node['name'], (times.get(node['name']) ?? 0) + 1);
  });
  return { types, times };
}

/** Every exported name that no other file imports, as `file: name`. A file that is loaded as a whole counts as used. */
export function unusedExports(sources: readonly Source[]): readonly string[] {
  const names = new Map(sources.map((source) => [source.path, namesOf(source)]));
  const used = new Set<string>();
  for (const [path, { takes }] of names) {
    for (const [target, name] of takes) used.add(`${posix.join(posix.dirname(path), target)}: ${name}`);
  }
  return [...names].flatMap(([path, { offers, mentions }]) =>
    used.has(`${path}: *`)
      ? []
      : offers.filter((name) => !used.has(`${path}: ${name}`) && !mentions(name)).map((name) => `${path}: ${name}`),
  );
}
