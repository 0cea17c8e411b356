/** Owns the sign-in: at the identity provider where there is one, or by a token, with a hint where to find it. */
import { Button, PasswordInput } from '@mantine/core';
import { useEffect, useState, type ReactNode } from 'react';
import type { SignInMethods } from '../../api/sign-in.ts';
import { Logo } from '../components/icons.tsx';
import { sentence } from '../components/sentence.ts';
import { PageTitle } from '../components/page.tsx';
import { SchemeToggle } from '../shell/color-scheme.tsx';
import { signInLink, signInNews } from '../state/session.ts';

export type SignInWithToken = (token: string) => Promise<void>;

export function TokenForm({
  enter,
  first,
  children,
}: {
  readonly enter: SignInWithToken;
  /** It is the first form on the page: it takes the focus, and its button is the primary one. */
  readonly first: boolean;
  readonly children?: ReactNode;
}): ReactNode {
  const [token, setToken] = useState('');
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState<string>();
  const submit = (): void => {
    const trimmed = token.trim();
    if (trimmed === '') {
      setFault('Paste your token here.');
      return;
    }
    setBusy(true);
    setFault(undefined);
    enter(trimmed)
      .catch((error: unknown) => setFault(sentence(error)))
      .finally(() => setBusy(false));
  };
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <PasswordInput
        label="Token"
        description="Yours begins with rf_user_. It stays in this tab and is forgotten when you close it."
        value={token}
        onChange={(event) => setToken(event.currentTarget.value)}
        error={fault}
        autoComplete="off"
        spellCheck={false}
        size="md"
        visibilityToggleButtonProps={{ 'aria-label': 'Show the token' }}
        autoFocus={first}
      />
      <Button type="submit" size="md" loading={busy} fullWidth variant={first ? 'filled' : 'default'}>
        {first ? 'Sign in' : 'Sign in with a token'}
      </Button>
      {children}
    </form>
  );
}

/** The way to the provider: a plain link, so that the browser itself goes there. */
export function ProviderButton({
  methods,
  to,
  tab = false,
}: {
  readonly methods: SignInMethods;
  readonly to: string;
  /** In another tab, so that this page stays as it is. */
  readonly tab?: boolean;
}): ReactNode {
  if (methods.provider?.browser !== true) return null;
  return (
    <Button
      component="a"
      href={signInLink(to)}
      size="md"
      fullWidth
      {...(tab ? { target: '_blank', rel: 'noopener' } : {})}
    >
      Sign in with {methods.provider.name}
    </Button>
  );
}

const motto = 'Security groups for your devices: who may reach what, written down and kept.';

/** Shown until the user is known. It equals the content of `index.html` before any script runs. */
export function Splash(): ReactNode {
  return (
    <main className="splash">
      <PageTitle>Ringfence</PageTitle>
      <p>{motto}</p>
      <p className="small" role="status">
        Signing in…
      </p>
    </main>
  );
}

/** The page of the web UI that was asked for. */
const here = (): string => (location.pathname.startsWith('/ui/') ? location.pathname + location.search : '/ui/');

export function SignIn({
  enter,
  methods,
  why,
}: {
  readonly enter: SignInWithToken;
  readonly methods: SignInMethods;
  readonly why?: string | undefined;
}): ReactNode {
  const offered = methods.provider?.browser === true;
  return (
    <main className="sign-in">
      <div className="sign-in-corner">
        <SchemeToggle />
      </div>
      <div className="card sign-in-card">
        <div className="row">
          <Logo size={40} />
          <PageTitle>Ringfence</PageTitle>
        </div>
        <p className="dimmed">{motto}</p>
        {why === undefined ? null : (
          <p className="note note-warn" role="status">
            {why}
          </p>
        )}
        <ProviderButton methods={methods} to={here()} />
        <TokenForm enter={enter} first={!offered}>
          <p className="small dimmed">
            The first administrator's token lies in <code>admin-token</code> in the server's data folder.
            {offered ? '' : ' Everyone else gets theirs from an administrator.'}
          </p>
        </TokenForm>
      </div>
    </main>
  );
}

/** The final page of the second tab: it notifies the first tab. */
export function SignedIn(): ReactNode {
  useEffect(() => {
    const news = signInNews();
    // eslint-disable-next-line unicorn/require-post-message-target-origin -- a channel has no target: it is of this origin only
    news.postMessage('signed in');
    news.close();
    window.close();
  }, []);
  return (
    <main className="sign-in">
      <div className="card sign-in-card">
        <PageTitle>You are signed in</PageTitle>
        <p>Go back to the other tab; you can close this one.</p>
        <a className="link" href="/ui/">
          Or go on here
        </a>
      </div>
    </main>
  );
}
