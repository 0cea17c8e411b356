/**
 * Owns everything behind the sign-in: queries, pages, messages, and the sign-in dialog that covers them when the
 * credential has expired.
 */
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { lazy, Suspense, useEffect, useRef, useState, type ComponentProps, type ReactNode } from 'react';
import { RingfenceError } from '../client/error.ts';
import { SignInAgain } from './pages/sign-in-again.tsx';
import { onDemand } from './state/load-ahead.ts';
import { theRouter } from './state/router.tsx';

/** At once: what fails while the server is down must be told without asking it for the file. */
const Toasts = lazy(onDemand(async () => ({ default: (await import('./components/toasts.tsx')).Toasts })));

/** What can be made before the first draw, in a task of its own. */
export const prepare = (): void => void theRouter();

const newQueries = (): QueryClient =>
  new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 5_000,
        // The frame notices when the server answers again; the browser only knows its own network.
        networkMode: 'always',
        retry: (failures, error) => failures < 2 && error instanceof RingfenceError && error.retryable,
      },
    },
  });

export function SignedInApp({
  round,
  expired,
}: {
  /** Times that the person had to sign in again: what failed meanwhile is asked anew. */
  readonly round: number;
  readonly expired: ComponentProps<typeof SignInAgain> | undefined;
}): ReactNode {
  const [queries] = useState(newQueries);
  const asked = useRef(round);
  useEffect(() => {
    if (asked.current === round) return;
    asked.current = round;
    void queries.invalidateQueries();
  }, [queries, round]);
  return (
    <QueryClientProvider client={queries}>
      <RouterProvider router={theRouter()} />
      <Suspense>
        <Toasts />
      </Suspense>
      {expired === undefined ? null : <SignInAgain {...expired} />}
    </QueryClientProvider>
  );
}
