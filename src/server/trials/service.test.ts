/** Proves what the service does with a trial that only a server of a later version can end. */
import { expect, onTestFinished, test, vi } from 'vitest';
import { parseOrganizationId, parseTrialId } from '../../policy/ids.ts';
import type { DueTrial } from '../store/contract/change/trials.ts';
import { StoreError } from '../problems.ts';
import { TrialService } from './service.ts';

const due = (n: number): DueTrial => ({
  org: parseOrganizationId('018f9c3e-5b7a-7c1d-9e2f-3a4b5c6d7e8f'),
  id: parseTrialId(`018f9c3e-5b7a-7c1d-9e2f-00000000000${n}`),
  at: 0,
});

test('a trial with records of a later version is warned about once, and holds up no other trial', async () => {
  const warnings: string[] = [];
  const expired: string[] = [];
  let looks = 0;
  const service = new TrialService({
    trials: {
      next: () => Promise.resolve((looks += 1) > 0 ? [due(1), due(2)] : []),
      expire: ({ id }) => {
        if (id === due(1).id) return Promise.reject(new StoreError({ code: 'newer_record', what: 'group' }));
        expired.push(id);
        return Promise.resolve(true);
      },
    },
    clock: () => 1,
    lookEveryMs: 1,
    onWarning: (message) => warnings.push(message),
  });
  onTestFinished(() => service.close());
  await vi.waitFor(() => expect(looks).toBeGreaterThan(5), { timeout: 60_000 });
  expect(expired).toContain(due(2).id);
  expect(warnings).toEqual([`a server of a later version has to revert the trial ${due(1).id}, whose time is over`]);
});
