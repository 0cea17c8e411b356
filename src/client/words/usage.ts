/** Owns the usage of rules in words: one text for command line and pages. */
import type { GroupUsage, RuleUsage } from '../../api/usage/rule-usage.ts';
import { grouped } from './number.ts';

/** `97 %`; never 100 where something is missing, and never 0 where something was observed. */
export function shareWords(share: number): string {
  if (share === 0 || share === 1) return `${share * 100} %`;
  return `${Math.min(99, Math.max(1, Math.round(share * 100)))} %`;
}

/** The same of a rule or a group of which traffic was seen or not: what was seen was observed, if only for a moment. */
export const observedWords = (share: number, used: boolean): string =>
  used && share === 0 ? 'under 1 %' : shareWords(share);

/** Why nothing is known, or what is. */
export function usageWords({ state, packets, observed }: RuleUsage): string {
  switch (state) {
    case 'used':
      return `${grouped(packets)} ${packets === 1 ? 'packet' : 'packets'}`;
    case 'unused':
      return 'no traffic';
    case 'unknown':
      // Beside the share of the group, `0 % observed` would look like a contradiction.
      return observed === 0 ? 'not observed yet' : `no traffic seen, ${shareWords(observed)} observed`;
    default:
      return state satisfies never;
  }
}

const count = (rules: readonly RuleUsage[], state: RuleUsage['state']): number =>
  rules.filter((rule) => rule.state === state).length;

/** `2 rules used, 1 unused, 1 unknown; 97 % of the time of 3 devices observed`. */
export function usageSummary({ rules, devices, observed }: GroupUsage): string {
  const parts = (['used', 'unused', 'unknown'] as const).flatMap((state) => {
    const number = count(rules, state);
    return number === 0 ? [] : [`${number} ${state}`];
  });
  const of =
    devices === 0
      ? 'no device has the group'
      : `${observedWords(observed, count(rules, 'used') > 0)} of the time of ${devices} ${devices === 1 ? 'device' : 'devices'} observed`;
  return `${parts.join(', ') || 'no rules'}; ${of}`;
}

/** Why a rule has another share than its group; undefined where all shares are equal. */
export const shareNote = ({ rules, observed }: Pick<GroupUsage, 'rules' | 'observed'>): string | undefined =>
  rules.every((rule) => rule.observed === observed)
    ? undefined
    : 'A rule is counted from the moment its group got it, so its share may be another one. Reports from earlier hours of that day do not count.';
