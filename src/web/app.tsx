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

/** Everything behind the sign-in. It is loaded separately, so the sign-in page does not wait for it. */
const loadPages = () => import('./signed-in-app.tsx');
const Pages = lazy(async () => ({ default: (await loadPages()).SignedInApp }));
/** A user who was signed in in this tab most likely still is: the pages load while the server is asked. */
if (storedToken() !== undefined) {
  setTimeout(() => void loadPages());
  // The page that most visits begin with.
  if (location.pathname.endsWith('/overview')) setTimeout(() => void import('./pages/overview.tsx'));
}

interface SignedInState {
  readonly kind: 'in';
  readonly me: WhoAmI;
  readonly client: Client;
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

  /** The same person goes on where they were; another begins anew. */
  const admit = useCallback((me: WhoAmI, secret: string | undefined): void => {
    token.current = secret;
    if (secret === undefined) forgetToken();
    else keepToken(secret);
    startTransition(() =>
      setAuthState((before) => {
        if (before.kind === 'in' && before.me.id === me.id)
          return { ...before, me, round: before.round + 1, expired: false };
        const client = lastingClient(() => token.current);
        return { kind: 'in', me, client, round: 0, expired: false };
      }),
    );
  }, []);

  const enter = useCallback(
    async (secret: string) => {
      void loadPages();
      admit(await signIn(secret), secret);
    },
    [admit],
  );
  const again = useCallback(async () => {
    const me = await sessionUser();
    if (me !== undefined) admit(me, undefined);
  }, [admit]);

  const end = useCallback((why?: string): void => {
    const bySession = token.current === undefined;
    forgetToken();
    setAuthState({ kind: 'out', why });
    if (!bySession) return;
    void endSession().then((place) => {
      if (place !== undefined) location.assign(place);
    });
  }, []);
  const expired = useCallback(
    (): void => setAuthState((before) => (before.kind === 'in' ? { ...before, expired: true } : before)),
    [],
  );

  useEffect(() => {
    const begin = async (): Promise<void> => {
      const stored = storedToken();
      const asked = methodsHere().then((offered) => {
        setMethods(offered);
        return offered;
      });
      if (stored !== undefined) return enter(stored);
      const me = (await asked).provider?.browser === true ? await sessionUser() : undefined;
      return me === undefined ? startTransition(() => setAuthState({ kind: 'out' })) : admit(me, undefined);
    };
    begin().catch((error: unknown) =>
      setAuthState({ kind: 'out', why: error instanceof Error ? error.message : undefined }),
    );
  }, [admit, enter]);

  const signedIn = authState.kind === 'in' ? authState : undefined;
  const { client, me, round } = signedIn ?? {};
  const session = useMemo(
    () =>
      client === undefined || me === undefined || round === undefined ? undefined : { client, me, round, end, expired },
    [client, me, round, end, expired],
  );
  if (authState.kind === 'out') return <SignIn enter={enter} methods={methods} why={authState.why} />;
  if (signedIn === undefined || session === undefined) return <Splash />;
  return (
    <SessionContext value={session}>
      <Suspense fallback={<Splash />}>
        <Pages
          key={signedIn.me.id}
          round={signedIn.round}
          expired={
            signedIn.expired ? { enter, again, methods, username: signedIn.me.username, leave: () => end() } : undefined
          }
        />
      </Suspense>
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
