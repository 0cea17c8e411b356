/** Proves that hints of this version and of later versions can be parsed. */
import { expect, test } from 'vitest';
import { decodeHint } from './hint-text.ts';

const [a, b] = ['00000000-0000-4000-8000-00000000000a', '00000000-0000-4000-8000-00000000000b'];

test('each kind of entry is read, broken ones are passed over, and others are messages', () => {
  expect(decodeHint(`s${a}/1/2 o${a} c${b} m${a}/${b} d${b} x${a} onope m${a} o${b} p${b}/9 `)).toEqual({
    organizations: [a, b],
    logged: [], // Only within a process.
    credentials: [b],
    removed_members: [{ organization_id: a, user_id: b }],
    deleted_organizations: [b],
    messages: [`x${a}`, `p${b}/9`],
  });
});
