/** Owns how a trial is shown on a terminal: where it is in force, which devices have trouble, and which policy tests fail. */
import type { PendingDevice } from '../../api/enforcement/convergence.ts';
import type { Trial } from '../../api/trial/trials.ts';
import { peerWord } from '../../client/words/rule.ts';
import { failureInWords } from '../../policy/policy-test/words.ts';
import type { Layout } from '../terminal/table.ts';
import { shortTime, spanWords } from '../terminal/time.ts';
import { countsLine, mostUrgent, renderExceptions } from './in-force.ts';

/** More devices than these nobody reads. */
const shownDevices = 20;

const plain: Layout = { paint: (_, text) => text, wide: false, headers: true, width: undefined };

/** `label:canary, label:edge+prod`, or `all devices`. */
export const scopeWords = ({ scope }: Pick<Trial, 'scope'>): string =>
  scope === undefined ? 'all devices' : scope.map((selector) => peerWord(selector)).join(', ');

/** `at 2026-11-18T10:14:05Z (in 1 min 40 s)`. */
export const endWords = ({ ends_at }: Pick<Trial, 'ends_at'>, leftMs: number): string =>
  leftMs > 0 ? `at ${shortTime(ends_at)} (in ${spanWords(leftMs)})` : `at ${shortTime(ends_at)}`;

/** A device that has the change in force and then went away is trouble too. */
const troubleOf = ({ enforcement }: Trial): readonly PendingDevice[] =>
  (enforcement?.trouble ?? []).map(({ online, ...device }) => ({
    ...device,
    ...(device.in_force === 'yes' && !online && { detail: 'went offline since the trial began' }),
  }));

/** Whether a person should look twice before keeping the change. */
export const hasTrouble = ({ enforcement, failing_tests = [] }: Trial): boolean =>
  (enforcement?.trouble.length ?? 0) + failing_tests.length > 0;

/** How the devices in scope are, the ones with trouble, and the policy tests that fail. */
export function trialLines(trial: Trial, now: number): readonly string[] {
  const { enforcement, failing_tests = [], more_failing_tests = 0 } = trial;
  if (enforcement === undefined) return [];
  const trouble = mostUrgent(troubleOf(trial));
  const more = trouble.length - shownDevices + (enforcement.more_trouble ?? 0);
  const tests = failing_tests.length + more_failing_tests;
  return [
    enforcement.devices === 0
      ? `No device is in the scope of the change: ${scopeWords(trial)}.`
      : `The change is ${countsLine(enforcement)} in its scope: ${scopeWords(trial)}.`,
    ...(trouble.length === 0 ? [] : renderExceptions(trouble.slice(0, shownDevices), now, plain).trimEnd().split('\n')),
    ...(more > 0 ? [`and ${more} more: ringfence trial show ${trial.id} -o json`] : []),
    ...(tests === 0
      ? ['No policy test fails.']
      : [`${tests === 1 ? '1 policy test fails' : `${tests} policy tests fail`}:`]),
    ...failing_tests.map((test) => `  ${test.name}${test.failure ? `: ${failureInWords(test, test.failure)}` : ''}`),
    ...(more_failing_tests > 0 ? [`  and ${more_failing_tests} more: ringfence test`] : []),
  ];
}

/** A pending trial in a line. */
export function trialLine(trial: Trial, now: number): string {
  const where = trial.enforcement === undefined ? '' : `, ${countsLine(trial.enforcement)}`;
  return `Trial ${trial.id} on ${scopeWords(trial)}${where}: taken back ${endWords(trial, Date.parse(trial.ends_at) - now)} unless confirmed.`;
}

const endings = {
  confirmed: 'The change stays.',
  reverted: 'The change was taken back.',
  expired: 'The time is over: the change was taken back.',
} as const;

/** How a trial ended. */
export const endingWords = ({ state }: Trial): string => (state === 'pending' ? '' : endings[state]);
