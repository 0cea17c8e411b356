/** Proves that hints of this and of later versions are read. */
import { expect, test } from 'vitest';
import { decodeHint } from './hint-text.ts';

const [a, b] = ['00000000-0000-4000-8000-00000000000a', '00000000-0000-4000-8000-00000000000b'];

test('each kind of entry is read, and unknown or broken ones are passed over', () => {
  expect(
    decodeHint(
      `o${a} c${b} m${a}/${b} d${b} x${a} onope m${a} o${b} r${a} w${b} a${a}/17 p${b}/9 p${b}/x a${a}/99999999999999999 `,
    ),
  ).toEqual({
    organizations: [a, b],
    logged: [], // Only within a process.
    credentials: [b],
    removed_members: [{ organization_id: a, user_id: b }],
    deleted_organizations: [b],
    receipts: [a],
    awaited_organizations: [b],
    prompted_organizations: [{ organization_id: a, revision: 17 }],
    prompted_devices: [{ device_id: b, revision: 9 }],
  });
});
