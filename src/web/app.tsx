/** Owns the outermost parts: the theme, and the choice between the pages and the sign-in. */
import { MantineProvider } from '@mantine/core';
import {
  lazy,
  startTransition,
  Suspense,
  useCallback,
  useEffect,
  useMemo,
  useRef,
  useState,
  type ReactNode,
} from 'react';
import type { SignInMethods } from '../api/sign-in.ts';
import type { WhoAmI } from '../api/user.ts';
import type { Client } from '../client/http.ts';
import { theme } from './theme/theme.ts';
import { SignedIn, SignIn, Splash } from './pages/sign-in.tsx';
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

const nextTask = (): Promise<void> => new Promise((done) => void setTimeout(done));

/** Everything behind the sign-in. It is loaded separately, so the sign-in page does not wait for it. */
const loadPages = async () => {
  const { SignedInApp, prepare } = await import('./signed-in-app.tsx');
  await nextTask();
  prepare();
  await nextTask();
  return SignedInApp;
};
type Pages = Awaited<ReturnType<typeof loadPages>>;
/** For auditors too, who have no account. Its file needs those of all pages. */
const EvidencePage = lazy(async () => {
  await loadPages();
  return { default: (await import('./pages/evidence.tsx')).EvidencePage };
});
/** A user who was signed in in this tab most likely still is: the server is asked, and the pages load, before the first draw. */
const stored = storedToken();
const firstAnswer = stored === undefined ? undefined : signIn(stored);
if (firstAnswer !== undefined) {
  // Whoever waits for it below is told.
  firstAnswer.catch(() => undefined);
  setTimeout(() => void loadPages().catch(() => undefined));
  // The page that most visits begin with.
  if (location.pathname.endsWith('/overview'))
    setTimeout(() => void import('./pages/overview.tsx').catch(() => undefined));
}

interface SignedInState {
  readonly kind: 'in';
  readonly me: WhoAmI;
  readonly client: Client;
  readonly Pages: Pages;
  /** Times that the person had to sign in again. */
  readonly round: number;
  readonly expired: boolean;
}
type AuthState =
  | { readonly kind: 'asking' }
  | { readonly kind: 'out'; readonly why?: string | undefined }
  | SignedInState;

function AuthBoundary(): ReactNode {
  const [authState, setAuthState] = useState<AuthState>({ kind: 'asking' });
  const [methods, setMethods] = useState<SignInMethods>({ token: true });
  /** What the client sends; undefined: the browser's cookie does. */
  const token = useRef<string | undefined>(undefined);
  const currentToken = useCallback(() => token.current, []);

  /** The same person goes on where they were; another begins anew. */
  const admit = useCallback(async (me: WhoAmI, secret: string | undefined): Promise<void> => {
    // React holds what follows a placeholder back for 300 ms: so there is none, and the pages are drawn once they are here.
    const Pages = await loadPages();
    token.current = secret;
    if (secret === undefined) forgetToken();
    else keepToken(secret);
    startTransition(() =>
      setAuthState((before) => {
        if (before.kind === 'in' && before.me.id === me.id)
          return { ...before, me, round: before.round + 1, expired: false };
        const client = lastingClient(currentToken);
        return { kind: 'in', me, client, Pages, round: 0, expired: false };
      }),
    );
  }, []);

  const enter = useCallback(
    async (secret: string) => {
      void loadPages().catch(() => undefined);
      await admit(await signIn(secret), secret);
    },
    [admit],
  );
  const again = useCallback(async () => {
    const me = await sessionUser();
    if (me !== undefined) await admit(me, undefined);
  }, [admit]);

  const askMethods = useCallback(async (): Promise<SignInMethods> => {
    const offered = await methodsHere();
    setMethods(offered);
    return offered;
  }, []);
  const end = useCallback(
    (why?: string): void => {
      const bySession = token.current === undefined;
      forgetToken();
      setAuthState({ kind: 'out', why });
      // Whoever came with a stored token has not been told them yet.
      void askMethods();
      if (!bySession) return;
      void endSession().then((place) => {
        if (place !== undefined) location.assign(place);
      });
    },
    [askMethods],
  );
  const expired = useCallback((): void => {
    void askMethods();
    setAuthState((before) => (before.kind === 'in' ? { ...before, expired: true } : before));
  }, [askMethods]);

  useEffect(() => {
    const begin = async (): Promise<void> => {
      if (stored !== undefined && firstAnswer !== undefined) return admit(await firstAnswer, stored);
      const me = (await askMethods()).provider?.browser === true ? await sessionUser() : undefined;
      return me === undefined ? startTransition(() => setAuthState({ kind: 'out' })) : admit(me, undefined);
    };
    begin().catch(async (error: unknown) => {
      if (stored !== undefined) await askMethods();
      setAuthState({ kind: 'out', why: error instanceof Error ? error.message : undefined });
    });
  }, [admit, askMethods]);

  const signedIn = authState.kind === 'in' ? authState : undefined;
  const { client, me, round } = signedIn ?? {};
  const session = useMemo(
    () =>
      client === undefined || me === undefined || round === undefined
        ? undefined
        : { client, token: currentToken, me, round, end, expired },
    [client, currentToken, me, round, end, expired],
  );
  if (authState.kind === 'out' && location.pathname === '/ui/evidence')
    return (
      <Suspense>
        <EvidencePage />
      </Suspense>
    );
  if (authState.kind === 'out') return <SignIn enter={enter} methods={methods} why={authState.why} />;
  if (signedIn === undefined || session === undefined) return <Splash />;
  return (
    <SessionContext value={session}>
      <signedIn.Pages
        key={signedIn.me.id}
        round={signedIn.round}
        expired={
          signedIn.expired ? { enter, again, methods, username: signedIn.me.username, leave: () => end() } : undefined
        }
      />
    </SessionContext>
  );
}

export function App(): ReactNode {
  return (
    <MantineProvider theme={theme} defaultColorScheme="auto" withCssVariables={false} withGlobalClasses={false}>
      {location.pathname === signedInPath ? <SignedIn /> : <AuthBoundary />}
    </MantineProvider>
  );
}
