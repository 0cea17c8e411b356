/** Owns the mark of a rule that ends by itself: when it expires, or that it has. */
import type { ReactNode } from 'react';
import { expiryWords } from '../../client/words/expiry.ts';
import { Tag } from './tag.tsx';

export function Expiry({ at }: { readonly at: string }): ReactNode {
  const isOver = Date.parse(at) <= Date.now();
  return (
    <span title={new Date(at).toLocaleString()}>
      <Tag tone={isOver ? 'plain' : 'warn'}>{expiryWords(at)}</Tag>
    </span>
  );
}
