/** Proves that a build says which commit it is, unless it is a release. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { buildCommit } from './packaging/version.mjs';

test('a build carries its commit, a release and a source without history do not', () => {
  const folder = mkdtempSync(join(tmpdir(), 'rf-version-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const git = (...args: string[]): string =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@example.org', ...args], { cwd: folder }).toString();
  writeFileSync(join(folder, 'package.json'), '{ "version": "1.2.3" }');
  expect(buildCommit(folder)).toBe('');
  git('init', '-q');
  git('add', '.');
  git('commit', '-q', '-m', 'first');
  const head = git('rev-parse', 'HEAD').trim();
  expect(buildCommit(folder)).toBe(head.slice(0, 10));
  git('tag', 'v1.2.2');
  expect(buildCommit(folder)).toBe(head.slice(0, 10));
  git('tag', 'v1.2.3');
  expect(buildCommit(folder)).toBe('');
});
