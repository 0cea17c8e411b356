/** Owns the search for exported names that no other file uses. */
import { posix } from 'node:path';
import { parseSync } from 'vite';
import { visit, type Source } from './layers.ts';

/** What one file offers, and what it takes from others: by name, or all of it (`*`). */
interface Names {
  readonly offers: readonly string[];
  readonly takes: readonly (readonly [target: string, name: string])[];
}

/** What the parser calls a name that is imported or exported: a name, `default`, or everything. */
function nameOf({ kind, name }: { readonly kind: string; readonly name: string | null }): string {
  if (kind === 'Default') return 'default';
  return kind === 'Name' ? (name ?? '*') : '*';
}

function namesOf({ path, text }: Source): Names {
  const { program, module } = parseSync(path, text);
  const takes: [string, string][] = [];
  const offers: string[] = [];
  for (const { moduleRequest, entries } of module.staticImports) {
    for (const { importName } of entries) takes.push([moduleRequest.value, nameOf(importName)]);
  }
  for (const { exportName, importName, moduleRequest } of module.staticExports.flatMap(({ entries }) => entries)) {
    if (moduleRequest !== null) takes.push([moduleRequest.value, nameOf(importName)]);
    if (exportName.kind !== 'None') offers.push(nameOf(exportName));
  }
  const types = new Set<unknown>();
  const mentions = new Map<unknown, number>();
  visit(program, (node) => {
    if (node['type'] === 'TSInterfaceDeclaration' || node['type'] === 'TSTypeAliasDeclaration') {
      types.add((node['id'] as { readonly name: string }).name);
    } else if (node['type'] === 'Identifier') {
      mentions.set(node['name'], (mentions.get(node['name']) ?? 0) + 1);
    } else if (node['type'] === 'ImportExpression' || node['type'] === 'TSImportType') {
      const { value } = (node['source'] ?? node['argument']) as { readonly value?: unknown };
      if (typeof value === 'string') takes.push([value, '*']);
    }
  });
  // A type that the file's own declarations mention is a part of what they say to others.
  const isOwn = (name: string): boolean => types.has(name) && (mentions.get(name) ?? 0) > 1;
  return { offers: offers.filter((name) => !isOwn(name)), takes };
}

/** Every exported name that no other file imports, as `file: name`. A file that is loaded as a whole counts as used. */
export function unusedExports(sources: readonly Source[]): readonly string[] {
  const names = new Map(sources.map((source) => [source.path, namesOf(source)]));
  const used = new Set<string>();
  for (const [path, { takes }] of names) {
    for (const [target, name] of takes) used.add(`${posix.join(posix.dirname(path), target)}: ${name}`);
  }
  return [...names].flatMap(([path, { offers }]) =>
    used.has(`${path}: *`) ? [] : offers.map((name) => `${path}: ${name}`).filter((each) => !used.has(each)),
  );
}
