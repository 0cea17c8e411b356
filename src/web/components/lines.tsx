/** Owns the lines of a difference on a page: added, removed, changed. */
import type { ReactNode } from 'react';
import type { Line } from '../../client/words/changes.ts';

const looks: { readonly [Sign in Line[0]]: readonly [className: string, shown: string, spoken: string] } = {
  '+': ['change-in', '+', 'added: '],
  '-': ['change-out', '−', 'removed: '],
  '~': ['change-other', '~', 'changed: '],
};

export function Lines({ lines }: { readonly lines: readonly Line[] }): ReactNode {
  if (lines.length === 0) return <p className="small dimmed">No policy field changed.</p>;
  return (
    <ul className="changes">
      {lines.map(([sign, text], index) => (
        // oxlint-disable-next-line react/no-array-index-key -- the same line may come twice
        <li key={index} className={looks[sign][0]}>
          <span aria-hidden="true">{looks[sign][1]}</span>
          <span className="visually-hidden">{looks[sign][2]}</span>
          {text}
        </li>
      ))}
    </ul>
  );
}
