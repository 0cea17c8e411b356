/** Proves that secrets are removed from log texts, and that removing them from hostile text takes linear time. */
import { expect, test } from 'vitest';
import { growthOfReading, mostGrowth } from '../../../test/lib/growth.ts';
import { withoutSecrets } from './secret.ts';

test.each([
  ['a token of ours', `x rf_user_${'a'.repeat(43)} y`, 'x rf_user_[secret] y'],
  ['an enrollment key in a path', '/api/rf_enroll_abc-_/x', '/api/rf_enroll_[secret]/x'],
  ['a signed token', 'Bearer eyJhbGciOi.eyJzdWIi.c2ln next', 'Bearer [signed token] next'],
  ['a signed token behind an escape', '/x%20eyJhbGciOi.eyJzdWIi.c2ln', '/x%20[signed token]'],
  ['a password in an address', 'postgres://ada:secret@host/db', 'postgres://ada:[secret]@host/db'],
  ['nothing secret', '/api/organizations/0b8a6d0e/devices', '/api/organizations/0b8a6d0e/devices'],
])('%s is taken out', (_what, text, clean) => {
  expect(withoutSecrets(text)).toBe(clean);
});

test.each(['eyJ', 'eyJ.', 'eyJa.b', 'rf_user_', '//a:', '//', '//a:b@'])(
  'a text of %j alone is read in proportion to its length',
  (piece) => {
    expect(growthOfReading(withoutSecrets, piece, 1_000)).toBeLessThan(mostGrowth);
  },
);
