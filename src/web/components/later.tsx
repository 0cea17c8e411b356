/** Owns parts of a page that are below the first screen: they are drawn after it, in slices, so that it does not wait for them. */
import { startTransition, useEffect, useState, type ReactNode } from 'react';

export function Later({ children }: { readonly children: ReactNode }): ReactNode {
  const [isNow, setNow] = useState(false);
  useEffect(() => startTransition(() => setNow(true)), []);
  return isNow ? children : null;
}
