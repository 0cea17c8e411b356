/** Proves which settings an agent follows when answers to its reports arrive in another order. */
import { expect, test } from 'vitest';
import type { AgentSettings } from '../../api/organization.ts';
import { SettingsAnswers } from './settings.ts';

test('a late answer to an older report does not take back newer settings', async () => {
  const followed: AgentSettings[] = [];
  const answers = new SettingsAnswers((settings) => followed.push(settings));
  const [old, changed] = [
    { observe: 'all', refuse_with: 'reject' },
    { observe: 'off', refuse_with: 'drop' },
  ] as const;
  let answer = (_answer: unknown): void => {};
  const flows = answers.of(() => new Promise((resolve) => (answer = resolve)));
  await answers.of(() => Promise.resolve({ settings: changed }));
  answer({ settings: old });
  await flows;
  expect(followed).toEqual([changed]);
  await answers.of(() => Promise.resolve({ settings: old }));
  await answers.of(() => Promise.resolve({}));
  expect(followed).toEqual([changed, old]);
});
