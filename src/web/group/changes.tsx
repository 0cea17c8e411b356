/** Owns the view of a difference of a group: what is added and what is removed. */
import type { ReactNode } from 'react';
import type { Line } from '../../client/words/changes.ts';
import type { RuleChanges } from '../../client/words/rule.ts';
import { Lines } from '../components/lines.tsx';
import type { Difference } from '../model/group-diff.ts';
import type { DeviceNames } from '../model/far-end.ts';
import { ruleText } from '../model/rule-text.ts';
import { useDeviceNames } from '../state/fleet.ts';

const ofRules = (name: string, { added, removed }: RuleChanges, names: DeviceNames): readonly Line[] => [
  ...removed.map((rule): Line => ['-', `${name} ${ruleText(rule, names)}`]),
  ...added.map((rule): Line => ['+', `${name} ${ruleText(rule, names)}`]),
];

const ofText = (name: string, pair: readonly [string, string] | undefined): readonly Line[] =>
  pair === undefined ? [] : [['~', `${name}: ${pair[0] || '(empty)'} → ${pair[1] || '(empty)'}`]];

export function Changes({ of }: { readonly of: Difference }): ReactNode {
  const names = useDeviceNames();
  const lines = [
    ...ofText('Name', of.name),
    ...ofText('Description', of.description),
    ...ofText('Applies to', of.appliesTo),
    ...ofText('Mode', of.mode),
    ...ofRules('Inbound', of.inbound, names),
    ...ofRules('Outbound', of.outbound, names),
  ];
  return lines.length === 0 ? <p className="dimmed">Nothing changes.</p> : <Lines lines={lines} />;
}
