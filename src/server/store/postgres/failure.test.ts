/** Proves what a failure of PostgreSQL says about a commit that was sent. */
import { expect, test } from 'vitest';
import { afterCommitSent } from './failure.ts';

const failed = (severity: string, code: string): Error => Object.assign(new Error('failed'), { severity, code });

test.each([
  ['a full disk that PostgreSQL reports', 'ERROR', '53100', 'storage_full'],
  ['a full disk that ends the connection', 'FATAL', '53100', 'outcome_unknown'],
  ['a full disk that ends PostgreSQL', 'PANIC', '53100', 'outcome_unknown'],
  ['a shutdown', 'FATAL', '57P01', 'outcome_unknown'],
  ['a lock that is held too long', 'ERROR', '55P03', 'unavailable'],
])('%s, once the commit was sent', (_what, severity, state, code) => {
  expect(afterCommitSent(failed(severity, state)).code).toBe(code);
});
