/** Owns the look ahead in the editor: who gains and who loses access, the rules behind it, and the ways to write it. */
import { useMemo, useState, type ReactNode } from 'react';
import type { ChangeSetBody } from '../../api/change/change-set.ts';
import { ChangePreview } from '../change/change-preview.tsx';
import { Dialog, DialogFoot } from '../components/dialog.tsx';
import { Compiled } from '../components/ruleset.tsx';
import { policiesOf } from '../../organization/device-policies.ts';
import { difference, type Content, type Difference } from '../model/draft.ts';
import { policyOfContent } from '../model/device-policy.ts';
import { ruleText } from '../model/rule-text.ts';
import { plural } from '../../client/words/number.ts';
import { useModel, useDeviceNames } from '../state/organization.ts';
import type { Line } from '../../client/words/changes.ts';
import type { RuleChanges } from '../../client/words/rule.ts';
import { Lines } from '../components/page.tsx';
import type { DeviceNames } from '../model/far-end.ts';

/** The text is compiled when someone opens it. */
function RulesetText({ content }: { readonly content: Content }): ReactNode {
  const [isOpen, setOpen] = useState(false);
  const model = useModel();
  const policy = useMemo(() => policyOfContent(content, policiesOf(model).fleet), [content, model]);
  return (
    <details className="disclosure" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>nftables</summary>
      {isOpen ? (
        <div className="stack tight">
          <p className="small dimmed">
            What an agent loads on a device that has only this group, with <code>wg0</code> as its interface.
          </p>
          <Compiled policy={policy} />
        </div>
      ) : null}
    </details>
  );
}

export function Preview({
  close,
  before,
  after,
  change,
  title = 'What would change',
  closeLabel = 'Go on editing',
  choices,
  children,
}: {
  readonly close: () => void;
  readonly before: Content;
  readonly after: Content;
  /** What would be written. */
  readonly change: ChangeSetBody;
  readonly title?: string;
  readonly closeLabel?: string;
  /** What the person can still choose, above what follows from it. */
  readonly choices?: ReactNode;
  /** The buttons that write it. */
  readonly children: ReactNode;
}): ReactNode {
  const changes = difference(before, after);
  return (
    <Dialog close={close} title={title} size="xl">
      <div className="stack">
        {choices}
        <ChangePreview change={change} />
        <details className="disclosure">
          <summary>{plural(changes.count, 'change')} of the group</summary>
          <Changes of={changes} />
        </details>
        {after.mode === 'observe' ? null : <RulesetText content={after} />}
        <DialogFoot cancel={close} cancelLabel={closeLabel} focusCancel>
          {children}
        </DialogFoot>
      </div>
    </Dialog>
  );
}

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
