/** Owns a list of facts: names and values. */
import type { ReactNode } from 'react';

export type Fact = readonly [name: string, value: ReactNode];

export const Facts = ({ facts }: { readonly facts: readonly Fact[] }): ReactNode => (
  <dl className="facts">
    {facts.map(([name, value]) => (
      <div key={name} className="fact">
        <dt>{name}</dt>
        <dd>{value}</dd>
      </div>
    ))}
  </dl>
);
