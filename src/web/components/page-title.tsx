/** Owns the title of a page: its heading, and the name of the browser's tab. */
import { useEffect, type ReactNode } from 'react';

const product = 'Ringfence';

/** Names the tab after the page, so that several open tabs can be told apart. */
export function useTabTitle(title: string): void {
  useEffect(() => {
    document.title = title === product ? product : `${title} · ${product}`;
  }, [title]);
}

export function PageTitle({ children }: { readonly children: string }): ReactNode {
  useTabTitle(children);
  return <h1>{children}</h1>;
}
