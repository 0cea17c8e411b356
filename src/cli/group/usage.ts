/** Owns the command that shows which rules of a group decided the observed traffic. */
import type { SecurityGroup } from '../../api/group.ts';
import type { GroupUsage, RuleUsage } from '../../api/usage/rule-usage.ts';
import { RingfenceError } from '../../client/error.ts';
import { ruleWords } from '../../client/words/rule.ts';
import { observedWords, shareNote, usageSummary, usageWords } from '../../client/words/usage.ts';
import { findGroup } from '../lookup/group.ts';
import type { Session } from '../session/session.ts';
import { agoWords, readPastTime, shortTime } from '../terminal/time.ts';
import { namesFor, type PeerNames } from './peer-text.ts';
import { rulesInWords } from './text.ts';

export interface UsageOptions {
  readonly since?: string;
}

const wordsOf = (group: SecurityGroup, { direction, rule: index }: RuleUsage, names: PeerNames): string => {
  const rule = group[`${direction}_rules`]?.[index];
  return rule === undefined ? '' : ruleWords(direction, rule, names);
};

const short = { inbound: 'in', outbound: 'out' } as const;

export async function usage(session: Session, text: string, { since = '7d' }: UsageOptions): Promise<void> {
  const group = await findGroup(session, text);
  const client = await session.client();
  const from = new Date(readPastTime(since, Date.now())).toISOString();
  const found = await client.groups.usage(group.org_id, group.id, { since: from });
  const all = [...rulesInWords('inbound', group.inbound_rules), ...rulesInWords('outbound', group.outbound_rules)];
  const names = await namesFor(session, all);
  await session.printList(found.rules, {
    none: 'The group has no rules.',
    id: 'rule_id',
    columns: () => [
      { head: 'DIRECTION', text: ({ direction }) => short[direction] },
      { head: 'RULE', text: (rule) => wordsOf(group, rule, names) },
      { head: 'USAGE', text: ({ state }) => state },
      { head: 'TRAFFIC', text: usageWords },
      { head: 'LAST HIT', text: ({ last_hit }) => (last_hit === undefined ? '' : agoWords(last_hit, Date.now())) },
      { head: 'OBSERVED', text: ({ observed, state }) => observedWords(observed, state === 'used'), align: 'right' },
      { head: 'SINCE', text: (rule) => shortTime(rule.since), wide: true },
      { head: 'RULE ID', text: ({ rule_id }) => rule_id, wide: true },
    ],
  });
  session.say(`Since ${shortTime(found.since)}: ${usageSummary(found)}.`);
  const note = shareNote(found);
  if (note !== undefined) session.say(note);
  const { observe } = await client.organizations.get(group.org_id);
  if (found.devices > 0 && observe !== 'all')
    session.say('Usage needs all traffic. An owner turns it on: `ringfence org edit ORG --observe all`');
}

/** What is worth a line beside a group: which of its rules nothing uses. Nothing for those who may not read it, and where nothing was observed. */
export async function usageLines(
  session: Session,
  group: SecurityGroup,
  names: PeerNames,
): Promise<readonly (readonly [string, string | readonly string[]])[]> {
  const client = await session.client();
  let found: GroupUsage;
  try {
    found = await client.groups.usage(group.org_id, group.id);
  } catch (error) {
    // A member may not read it, and an older server does not know it.
    if (error instanceof RingfenceError && (error.status === 403 || error.status === 404)) return [];
    throw error;
  }
  if (found.observed === 0) return [];
  const unused = found.rules.filter(({ state }) => state === 'unused');
  return [
    ['usage', `${usageSummary(found)} since ${shortTime(found.since)}`],
    ...(unused.length === 0
      ? []
      : [['unused', unused.map((rule) => `${short[rule.direction]} ${wordsOf(group, rule, names)}`)] as const]),
  ];
}
