/** Owns one step of a guided way: its title, its state, what it is about, and its action. */
import type { ReactNode } from 'react';
import { Tag } from './tag.tsx';

export type StepState = 'done' | 'now' | 'later';

export function Step({
  title,
  state,
  children,
  action,
}: {
  readonly title: string;
  readonly state: StepState;
  readonly children: ReactNode;
  readonly action?: ReactNode;
}): ReactNode {
  return (
    <li className={`path-step path-${state}`} aria-current={state === 'now' ? 'step' : undefined}>
      <div className="path-words">
        <strong>{title}</strong>
        {state === 'later' ? null : <Tag tone="accent">{state === 'done' ? 'done' : 'next'}</Tag>}
        <div className="small">{children}</div>
      </div>
      {action === undefined ? null : <div className="path-act">{action}</div>}
    </li>
  );
}
