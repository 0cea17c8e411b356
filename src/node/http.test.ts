/** Proves that a program which speaks HTTP does not load all of fetch for it. */
import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const source = new URL('..', import.meta.url);
/** Loaded by one command alone, when it runs. */
const seldom = ['cli/oauth/loopback.ts', 'server/demo/provider.ts'];

it('nobody imports a value of node:http, which would load fetch and WebSocket', () => {
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.ts') && !/\.(?:test|fixture)\.ts$/.test(file),
  );
  const importing = files.filter((file) =>
    /^import (?!type\b).* from 'node:http';$/m.test(readFileSync(new URL(file, source), 'utf8')),
  );
  expect(importing.toSorted()).toEqual(seldom);
});
