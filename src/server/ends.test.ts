/** Proves what one look does with what ends: in time, one failure holds up nothing else, and what another server has to end is told once. */
import { expect, test } from 'vitest';
import { parseDeviceId, parseOrganizationId, parseTrialId } from '../policy/ids.ts';
import { endsOfTime } from './ends.ts';
import type { Ending } from './store/trials/ends.ts';
import { StoreError, type StoreProblem } from './problems.ts';

const org = parseOrganizationId('018f9c3e-5b7a-7c1d-9e2f-3a4b5c6d7e8f');
const trialId = (n: number) => parseTrialId(`018f9c3e-5b7a-7c1d-9e2f-00000000000${n}`);
const trial = (n: number, at: number): Ending => ({ kind: 'trial', org, id: trialId(n), at });
const isolation = (n: number, at: number): Ending => {
  const id = parseDeviceId(`018f9c3e-5b7a-7c1d-9e2f-00000000000${n}`);
  return { kind: 'isolation', org, id, at, revision: 7, owner: 'o' };
};

function look(known: readonly Ending[], problems: ReadonlyMap<string, Error> = new Map()) {
  const warnings: string[] = [];
  const ended: string[] = [];
  const asked: number[] = [];
  const work = endsOfTime({
    ends: {
      next: async (withinMs) => {
        asked.push(withinMs);
        return known;
      },
      end: async ({ id }) => {
        const problem = problems.get(id);
        if (problem !== undefined) throw problem;
        ended.push(id);
      },
    },
    clock: () => 1_000,
    onWarning: (message) => warnings.push(message),
  });
  return { warnings, ended, asked, run: () => work.run(new AbortController().signal) };
}
const problem = (value: StoreProblem): Error => new StoreError(value);

test('what is over ends, and the next look is when the next one ends', async () => {
  const { run, ended, asked } = look([trial(1, 900), isolation(2, 1_000), trial(3, 1_300), isolation(4, 1_400)]);
  expect(await run()).toBe(300);
  expect(ended).toEqual([trialId(1), trialId(2)]);
  const idle = look([]);
  // Nobody is told of an end that is made known later than it ends.
  expect(await idle.run()).toBe(asked[0]);
});

test('an end that fails holds up no other one, and fails the look, so that it is tried again', async () => {
  const broken = new Map([[trialId(1), new Error('away')]]);
  const { run, ended, warnings } = look([trial(1, 0), isolation(2, 0), trial(3, 5_000)], broken);
  await expect(run()).rejects.toThrow('away');
  expect(ended).toEqual([trialId(2)]);
  expect(warnings).toEqual([]);
});

test('a record of a later version is warned about once', async () => {
  const problems = new Map([1, 2].map((n) => [trialId(n), problem({ code: 'newer_record', what: 'group' })]));
  const { run, ended, warnings } = look([trial(1, 0), isolation(2, 0), trial(3, 0)], problems);
  await run();
  await run();
  expect(ended).toEqual([trialId(3), trialId(3)]);
  expect(warnings).toEqual([
    `a server of a later version has to end the trial ${trialId(1)}, whose time is over`,
    `a server of a later version has to end the isolation of the device ${trialId(2)}, whose time is over`,
  ]);
});

test('what another server has ended, or somebody has changed meanwhile, is no failure', async () => {
  const problems = new Map([
    [trialId(1), problem({ code: 'not_found', what: 'device' })],
    [trialId(2), problem({ code: 'precondition_failed', revision: 9 } as StoreProblem)],
  ]);
  const { run, warnings } = look([trial(1, 0), isolation(2, 0)], problems);
  expect(await run()).toBeGreaterThan(0);
  expect(warnings).toEqual([]);
});
