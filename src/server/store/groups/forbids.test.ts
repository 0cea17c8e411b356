/** Proves that a write does not wait for what only warns. */
import { expect, test } from 'vitest';
import { emptyOrganization } from '../../../organization/organization.ts';
import { parseGroupId, parseOrganizationId } from '../../../policy/ids.ts';
import type { Context } from '../write/context.ts';
import { groupsIn } from './groups.ts';

const id = '00000000-0000-4000-8000-000000000001';
const forbidsWith = (read: () => Promise<typeof emptyOrganization>) => {
  const models = { read, run: <T>(steps: Generator<void, T>) => Promise.resolve(steps.next().value) };
  return groupsIn({ models } as unknown as Context).forbidsOn(parseOrganizationId(id), parseGroupId(id));
};

test('what is not found out within a second, or fails, is not known', async () => {
  expect(await forbidsWith(() => Promise.resolve(emptyOrganization))).toEqual([]);
  expect(await forbidsWith(() => new Promise(() => {}))).toBeUndefined();
  expect(await forbidsWith(() => Promise.reject(new Error('no database')))).toBeUndefined();
});
