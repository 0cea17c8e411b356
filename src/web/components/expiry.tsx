/** Owns the mark of a rule that ends by itself: when it expires, or that it has. */
import type { ReactNode } from 'react';
import { expiryWords } from '../../client/words/expiry.ts';
import { Tag } from './tag.tsx';
import { showExact } from './time.tsx';

export function Expiry({ at }: { readonly at: string }): ReactNode {
  const isOver = Date.parse(at) <= Date.now();
  return (
    <time dateTime={at} onPointerEnter={showExact}>
      <Tag tone={isOver ? 'plain' : 'warn'}>{expiryWords(at)}</Tag>
    </time>
  );
}
