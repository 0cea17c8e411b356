/** Owns the outermost parts: look, queries, messages, and whether the pages or the sign-in stand there. */
import { MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { useEffect, useState, type ReactNode } from 'react';
import { RingfenceError } from '../client/error.ts';
import { theme } from './look/theme.ts';
import { SignIn } from './pages/sign-in.tsx';
import { Loading } from './parts/states.tsx';
import { router } from './state/router.tsx';
import { forgetToken, keepToken, SessionContext, signIn, storedToken, type Session } from './state/session.ts';

const newQueries = (): QueryClient =>
  new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 5_000,
        retry: (failures, error) => failures < 2 && error instanceof RingfenceError && error.retryable,
      },
    },
  });

type Where =
  | { readonly kind: 'asking' }
  | { readonly kind: 'out'; readonly why?: string | undefined }
  | { readonly kind: 'in'; readonly session: Session; readonly queries: QueryClient };

function Door(): ReactNode {
  const [where, setWhere] = useState<Where>(() => ({ kind: storedToken() === undefined ? 'out' : 'asking' }));

  const enter = async (token: string): Promise<void> => {
    const { client, me } = await signIn(token);
    keepToken(token);
    const end = (why?: string): void => {
      forgetToken();
      setWhere({ kind: 'out', why });
    };
    setWhere({ kind: 'in', session: { client, me, end }, queries: newQueries() });
  };

  useEffect(() => {
    const token = storedToken();
    if (token === undefined) return;
    enter(token).catch((error: unknown) =>
      setWhere({ kind: 'out', why: error instanceof Error ? error.message : undefined }),
    );
  }, []);

  if (where.kind === 'asking') {
    return (
      <main className="page">
        <Loading what="Signing in…" />
      </main>
    );
  }
  if (where.kind === 'out') return <SignIn enter={enter} why={where.why} />;
  return (
    <SessionContext value={where.session}>
      <QueryClientProvider client={where.queries}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </SessionContext>
  );
}

export function App(): ReactNode {
  return (
    <MantineProvider theme={theme} defaultColorScheme="auto" withCssVariables={false} withGlobalClasses={false}>
      <Notifications position="bottom-right" limit={4} />
      <Door />
    </MantineProvider>
  );
}
