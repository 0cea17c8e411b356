/** Owns the title of a page: its heading, and the name of the browser's tab. */
import { useEffect, type ReactNode } from 'react';

const product = 'Ringfence';

/** It also names the tab after the page, so that several open tabs can be told apart. */
export function PageTitle({ children: title }: { readonly children: string }): ReactNode {
  useEffect(() => {
    document.title = title === product ? product : `${title} · ${product}`;
  }, [title]);
  return <h1>{title}</h1>;
}
