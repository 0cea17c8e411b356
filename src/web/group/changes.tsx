/** Owns a difference for reading: what comes, what goes. */
import type { ReactNode } from 'react';
import type { Difference, RuleChanges } from '../model/group-diff.ts';
import { ruleText } from '../model/rule-text.ts';

const lines = (name: string, { added, removed }: RuleChanges): readonly (readonly ['+' | '−', string])[] => [
  ...removed.map((rule) => ['−', `${name} ${ruleText(rule)}`] as const),
  ...added.map((rule) => ['+', `${name} ${ruleText(rule)}`] as const),
];

const words = (name: string, pair: readonly [string, string] | undefined): readonly (readonly ['+' | '−', string])[] =>
  pair === undefined
    ? []
    : [
        ['−', `${name}: ${pair[0] || '(empty)'}`],
        ['+', `${name}: ${pair[1] || '(empty)'}`],
      ];

export function Changes({ of }: { readonly of: Difference }): ReactNode {
  const all = [
    ...words('Name', of.name),
    ...words('Description', of.description),
    ...lines('Inbound', of.inbound),
    ...lines('Outbound', of.outbound),
  ];
  if (all.length === 0) return <p className="dimmed">Nothing changes.</p>;
  return (
    <ul className="changes">
      {all.map(([sign, text], index) => (
        // oxlint-disable-next-line react/no-array-index-key -- the same rule may come twice
        <li key={index} className={sign === '+' ? 'change-in' : 'change-out'}>
          <span aria-hidden="true">{sign}</span>
          <span className="visually-hidden">{sign === '+' ? 'added: ' : 'removed: '}</span>
          {text}
        </li>
      ))}
    </ul>
  );
}
