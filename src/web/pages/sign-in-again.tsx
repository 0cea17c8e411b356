/** Owns the sign-in dialog over pages whose credential has expired. */
import { Button } from '@mantine/core';
import { useEffect, type ReactNode } from 'react';
import type { SignInMethods } from '../../api/sign-in.ts';
import { Dialog } from '../components/dialog.tsx';
import { signedInPath, signInNews } from '../state/session.ts';
import { ProviderButton, TokenForm, type SignInWithToken } from './sign-in.tsx';

/** Over the pages when the credential has ended: signing in again loses nothing of what was not saved. */
export function SignInAgain({
  enter,
  again,
  methods,
  username,
  leave,
}: {
  readonly enter: SignInWithToken;
  /** Looks whether the browser has a session now. */
  readonly again: () => Promise<void>;
  readonly methods: SignInMethods;
  readonly username: string;
  readonly leave: () => void;
}): ReactNode {
  useEffect(() => {
    const news = signInNews();
    const look = (): void => void again().catch(() => undefined);
    news.addEventListener('message', look);
    return () => news.close();
  }, [again]);
  return (
    <Dialog close={leave} title="Sign in again" withCloseButton={false} closeOnClickOutside={false}>
      <div className="stack">
        <p>
          Your sign-in is no longer valid. Sign in as <strong>{username}</strong> to go on where you were: what you have
          not saved is still here.
        </p>
        <ProviderButton methods={methods} to={signedInPath} tab />
        <TokenForm enter={enter} first={methods.provider?.browser !== true} />
        <Button variant="subtle" onClick={leave}>
          Sign out and leave this page
        </Button>
      </div>
    </Dialog>
  );
}
