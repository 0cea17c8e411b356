/** Owns a group's rules in one line, for lists. */
import type { ReactNode } from 'react';
import type { Direction, StoredRule } from '../../policy/rule.ts';
import { Expiry } from '../components/expiry.tsx';
import { meaningInShort, summarize } from '../model/rule-summary.ts';
import { useDeviceNames } from '../state/fleet.ts';

const shown = 3;

export function RulesInShort({
  direction,
  rules,
  isGuardrail = false,
}: {
  readonly direction: Direction;
  readonly rules: readonly StoredRule[];
  /** It never opens or closes the rest of a direction: without rules it says nothing about it. */
  readonly isGuardrail?: boolean;
}): ReactNode {
  const names = useDeviceNames();
  if (rules.length === 0 && isGuardrail) return null;
  if (rules.length === 0) return <span className="dimmed">{meaningInShort[direction]}</span>;
  const all = summarize(rules, names);
  const [arrow, word] = direction === 'inbound' ? ['←', 'from'] : ['→', 'to'];
  return (
    <>
      {all.slice(0, shown).map(({ what, farEnd, expiresAt }) => (
        <span key={`${what} ${farEnd} ${expiresAt ?? ''}`} className="brief">
          {what} <span aria-hidden="true">{arrow}</span>
          <span className="visually-hidden">{word}</span> {farEnd}{' '}
          {expiresAt === undefined ? null : <Expiry at={expiresAt} />}
        </span>
      ))}
      {all.length > shown ? <span className="dimmed">+{all.length - shown}</span> : null}
    </>
  );
}
