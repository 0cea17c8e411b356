/** Proves that every change of a schema comes with a new wire version. */
import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { errors, allProblemCodes } from './codes.ts';
import { operations, type Operation } from './operations.ts';
import { pathsOf, operationIds } from './paths.ts';
import { ProblemBody } from './problem.ts';
import { signInPathIds, signInPaths, type SignInPathId } from './sign-in.ts';
import { versions } from './version.ts';

/** Prose may change freely; names, types and limits may not. */
function meaning(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(meaning);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value)
    .filter(([key, inner]) => !(['description', 'summary', 'title'].includes(key) && typeof inner === 'string'))
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, inner]) => [key, meaning(inner)]));
}

/** What a client can notice of an operation; the rest of its columns steer the server. */
const visible = ({
  effect: _effect,
  cost: _cost,
  subject: _subject,
  bodyReader: _reader,
  bodySize: _size,
  coalesced: _coalesced,
  ...wire
}: Operation) => wire;

const visibleSignIn = ({ failurePages: _pages, needsSession: _session, ...wire }: (typeof signInPaths)[SignInPathId]) =>
  wire;

test('a change of the wire comes with a new version', () => {
  const wire = meaning({
    operations: Object.fromEntries(operationIds.map((id) => [id, visible(operations[id])])),
    aliases: operationIds.map((id) => pathsOf(id)),
    signIn: Object.fromEntries(signInPathIds.map((id) => [id, visibleSignIn(signInPaths[id])])),
    problem: ProblemBody,
    codes: Object.keys(allProblemCodes).toSorted(),
    errors: Object.entries(errors).map(([code, [status]]) => [code, status]),
  });
  const hash = createHash('sha256').update(JSON.stringify(wire)).digest('hex').slice(0, 16);
  const [version, known] = versions[versions.length - 1] ?? [];
  expect(
    hash,
    `The wire differs from version ${version}. If that version has been released, add a line to \`versions\` in ` +
      `src/api/version.ts with the next version (minor if older clients still work, major otherwise) and the hash ` +
      `'${hash}'; if it has not, put that hash into its line. Tell it in CHANGELOG.md.`,
  ).toBe(known);
});

test('every version stands once and has a hash', () => {
  const names = versions.map(([name]) => name);
  expect(new Set(names).size).toBe(names.length);
  for (const [, hash] of versions) expect(hash).toMatch(/^[0-9a-f]{16}$/);
});
