/** Proves what the check of durability tells readers when its own commit is in doubt. */
import { expect, test } from 'vitest';
import { parseOrganizationId } from '../../../policy/ids.ts';
import { StoreError } from '../../problems.ts';
import { problemOf } from '../store.fixture.ts';
import { Durability } from './durability.ts';

const org = parseOrganizationId('00000000-0000-4000-8000-000000000001');

test('readers are told to try again, and never that their change may have happened', async () => {
  let isInDoubt = true;
  const durability = new Durability({
    run: () => (isInDoubt ? Promise.reject(new StoreError({ code: 'outcome_unknown' })) : Promise.resolve([])),
  });
  expect(await problemOf(durability.check([[org, 7]]))).toEqual({ code: 'unavailable' });
  isInDoubt = false;
  await durability.check([[org, 7]]);
});
