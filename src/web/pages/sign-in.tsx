/** Owns the sign-in: one token, and a word on where to find it. */
import { Button, PasswordInput } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import { Logo } from '../look/icons.tsx';
import { sentence } from '../parts/states.tsx';
import { SchemeToggle } from '../shell/scheme.tsx';

export function SignIn({
  enter,
  why,
}: {
  readonly enter: (token: string) => Promise<void>;
  readonly why?: string | undefined;
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
    enter(trimmed).catch((error: unknown) => {
      setFault(sentence(error));
      setBusy(false);
    });
  };
  return (
    <main className="sign-in">
      <div className="sign-in-corner">
        <SchemeToggle />
      </div>
      <form
        className="card sign-in-card"
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <div className="row">
          <Logo size={40} />
          <h1>Ringfence</h1>
        </div>
        <p className="dimmed">Security groups for your devices: who may reach what, written down and kept.</p>
        {why === undefined ? null : (
          <p className="note note-warn" role="status">
            {why}
          </p>
        )}
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
          autoFocus
        />
        <Button type="submit" size="md" loading={busy} fullWidth>
          Sign in
        </Button>
        <p className="small dimmed">
          The first administrator's token lies in <code>admin-token</code> in the server's data folder. Everyone else
          gets theirs from an administrator.
        </p>
      </form>
    </main>
  );
}
