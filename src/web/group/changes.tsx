/** Owns the view of a difference: what is added and what is removed. */
import type { ReactNode } from 'react';
import type { RuleChanges } from '../../client/words/rule.ts';
import type { Difference } from '../model/group-diff.ts';
import type { DeviceNames } from '../model/far-end.ts';
import { ruleText } from '../model/rule-text.ts';
import { useDeviceNames } from '../state/fleet.ts';

const lines = (
  name: string,
  { added, removed }: RuleChanges,
  names: DeviceNames,
): readonly (readonly ['+' | '−', string])[] => [
  ...removed.map((rule) => ['−', `${name} ${ruleText(rule, names)}`] as const),
  ...added.map((rule) => ['+', `${name} ${ruleText(rule, names)}`] as const),
];

const words = (name: string, pair: readonly [string, string] | undefined): readonly (readonly ['+' | '−', string])[] =>
  pair === undefined
    ? []
    : [
        ['−', `${name}: ${pair[0] || '(empty)'}`],
        ['+', `${name}: ${pair[1] || '(empty)'}`],
      ];

export function Changes({ of }: { readonly of: Difference }): ReactNode {
  const names = useDeviceNames();
  const all = [
    ...words('Name', of.name),
    ...words('Description', of.description),
    ...words('Applies to', of.appliesTo),
    ...words('Mode', of.mode),
    ...lines('Inbound', of.inbound, names),
    ...lines('Outbound', of.outbound, names),
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
