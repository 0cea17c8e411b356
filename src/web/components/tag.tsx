/** Owns tags: small coloured words, readable in both colour schemes. */
import type { ReactNode } from 'react';

export type Tone = 'plain' | 'accent' | 'good' | 'warn' | 'bad';

export function Tag({ tone = 'plain', children }: { readonly tone?: Tone; readonly children: ReactNode }): ReactNode {
  return <span className={`tag tag-${tone}`}>{children}</span>;
}
