/** Owns the hints on a group's rules in sentences: rules that are open to all addresses, and redundant rules. */
import { ruleInSentence, type DeviceNaming } from '../../client/words/rule.ts';
import { isOpenToAll, redundantRules } from '../../policy/advice/breadth.ts';
import { isAnyPort } from '../../policy/match.ts';
import type { Direction, StoredRule } from '../../policy/rule.ts';
import type { Content } from './draft.ts';
import { protocolName, serviceName } from './rule-text.ts';

interface Advice {
  readonly direction: Direction;
  readonly tone: 'plain' | 'warn';
  readonly text: string;
}

const shown = 4;
const listed = (texts: readonly string[]): string =>
  texts.length > shown ? `${texts.slice(0, shown).join(', ')} and ${texts.length - shown} more` : texts.join(', ');

/** What most people mean to offer to everybody. */
const isPublicService = ({ from_port, to_port }: StoredRule): boolean =>
  from_port === to_port && (from_port === 80 || from_port === 443);

const whatText = (rule: StoredRule): string =>
  serviceName(rule) ??
  (isAnyPort(rule)
    ? `every ${rule.ip_protocol.startsWith('ip') ? `${protocolName(rule.ip_protocol)} ` : `${rule.ip_protocol} `}port`
    : `${rule.ip_protocol} ${rule.from_port === rule.to_port ? rule.from_port : `${rule.from_port}-${rule.to_port}`}`);

function openAdvice(rules: readonly StoredRule[]): readonly Advice[] {
  const open = rules.filter((rule) => isOpenToAll(rule) && !rule.ip_protocol.startsWith('icmp'));
  const risky = [...new Set(open.filter((rule) => !isPublicService(rule)).map(whatText))];
  if (risky.length === 0) return [];
  return [
    {
      direction: 'inbound',
      tone: 'warn',
      text: `Open to everybody who can reach a device: ${listed(risky)}. Name who may come in, unless you mean everybody.`,
    },
  ];
}

/** Forbidding everybody is what a guardrail is for; what it makes needless is still worth a word. */
export function adviceOn(content: Content, names: DeviceNaming): readonly Advice[] {
  const redundant = (['inbound', 'outbound'] as const).flatMap((direction) =>
    redundantRules(content[`${direction}_rules`])
      .slice(0, shown)
      .map(({ rule, within }): Advice => ({
        direction,
        tone: 'plain',
        text: `“${ruleInSentence(direction, rule, names)}” adds nothing: “${ruleInSentence(direction, within, names)}” says it already.`,
      })),
  );
  return [...(content.guardrail === 'forbid' ? [] : openAdvice(content.inbound_rules)), ...redundant];
}
