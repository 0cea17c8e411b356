/** Owns how a page looks while it is still loading. */
import { Skeleton } from '@mantine/core';
import type { ReactNode } from 'react';

const lines = [96, 88, 92, 76, 84];

export function Loading({ what }: { readonly what: string }): ReactNode {
  return (
    <div className="stack" role="status" aria-label={what}>
      <p className="dimmed small">{what}</p>
      {lines.map((width) => (
        <Skeleton key={width} height={36} width={`${width}%`} />
      ))}
    </div>
  );
}
