/** Owns the outermost parts: look, queries, messages, and whether the pages or the sign-in stand there. */
import { MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { useCallback, useEffect, useMemo, useRef, useState, type ReactNode } from 'react';
import type { SignInMethods } from '../api/sign-in.ts';
import type { WhoAmI } from '../api/user.ts';
import { RingfenceError } from '../client/error.ts';
import type { Client } from '../client/http.ts';
import { theme } from './theme/theme.ts';
import { SignedIn, SignIn, SignInAgain } from './pages/sign-in.tsx';
import { Loading } from './components/placeholders.tsx';
import { router } from './state/router.tsx';
import {
  endSession,
  forgetToken,
  keepToken,
  lastingClient,
  methodsHere,
  SessionContext,
  sessionUser,
  signedInPath,
  signIn,
  storedToken,
} from './state/session.ts';

const newQueries = (): QueryClient =>
  new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 5_000,
        retry: (failures, error) => failures < 2 && error instanceof RingfenceError && error.retryable,
      },
    },
  });

interface Inside {
  readonly kind: 'in';
  readonly me: WhoAmI;
  readonly client: Client;
  readonly queries: QueryClient;
  /** Times that the person had to sign in again. */
  readonly round: number;
  readonly expired: boolean;
}
type Where = { readonly kind: 'asking' } | { readonly kind: 'out'; readonly why?: string | undefined } | Inside;

function Door(): ReactNode {
  const [where, setWhere] = useState<Where>({ kind: 'asking' });
  const [methods, setMethods] = useState<SignInMethods>({ token: true });
  /** What the client sends; undefined: the browser's cookie does. */
  const token = useRef<string | undefined>(undefined);

  /** The same person goes on where they were; another begins anew. */
  const admit = useCallback((me: WhoAmI, secret: string | undefined): void => {
    token.current = secret;
    if (secret === undefined) forgetToken();
    else keepToken(secret);
    setWhere((before) => {
      if (before.kind === 'in' && before.me.id === me.id) {
        void before.queries.invalidateQueries();
        return { ...before, me, round: before.round + 1, expired: false };
      }
      const client = lastingClient(() => token.current);
      return { kind: 'in', me, client, queries: newQueries(), round: 0, expired: false };
    });
  }, []);

  const enter = useCallback(async (secret: string) => admit(await signIn(secret), secret), [admit]);
  const again = useCallback(async () => {
    const me = await sessionUser();
    if (me !== undefined) admit(me, undefined);
  }, [admit]);

  const end = useCallback((why?: string): void => {
    const bySession = token.current === undefined;
    forgetToken();
    setWhere({ kind: 'out', why });
    if (!bySession) return;
    void endSession().then((place) => {
      if (place !== undefined) location.assign(place);
    });
  }, []);
  const expired = useCallback(
    (): void => setWhere((before) => (before.kind === 'in' ? { ...before, expired: true } : before)),
    [],
  );

  useEffect(() => {
    const begin = async (): Promise<void> => {
      const stored = storedToken();
      const offered = await methodsHere();
      setMethods(offered);
      if (stored !== undefined) return enter(stored);
      const me = offered.provider?.browser === true ? await sessionUser() : undefined;
      return me === undefined ? setWhere({ kind: 'out' }) : admit(me, undefined);
    };
    begin().catch((error: unknown) =>
      setWhere({ kind: 'out', why: error instanceof Error ? error.message : undefined }),
    );
  }, [admit, enter]);

  const inside = where.kind === 'in' ? where : undefined;
  const { client, me, round } = inside ?? {};
  const session = useMemo(
    () =>
      client === undefined || me === undefined || round === undefined ? undefined : { client, me, round, end, expired },
    [client, me, round, end, expired],
  );
  if (where.kind === 'out') return <SignIn enter={enter} methods={methods} why={where.why} />;
  if (inside === undefined || session === undefined) {
    return (
      <main className="page">
        <Loading what="Signing in…" />
      </main>
    );
  }
  return (
    <SessionContext value={session}>
      <QueryClientProvider client={inside.queries}>
        <RouterProvider router={router} />
        {inside.expired ? (
          <SignInAgain
            enter={enter}
            again={again}
            methods={methods}
            username={inside.me.username}
            leave={() => end()}
          />
        ) : null}
      </QueryClientProvider>
    </SessionContext>
  );
}

export function App(): ReactNode {
  return (
    <MantineProvider theme={theme} defaultColorScheme="auto" withCssVariables={false} withGlobalClasses={false}>
      <Notifications position="bottom-right" limit={4} />
      {location.pathname === signedInPath ? <SignedIn /> : <Door />}
    </MantineProvider>
  );
}
