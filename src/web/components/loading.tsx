/** Owns how a page looks while it is still loading: a few grey lines that begin to pulse only where it takes long. */
import type { ReactNode } from 'react';

export function Loading({ what }: { readonly what: string }): ReactNode {
  return (
    <div className="loading" role="status" aria-label={what}>
      <p className="dimmed small">{what}</p>
      <div />
      <div />
      <div />
      <div />
      <div />
    </div>
  );
}
