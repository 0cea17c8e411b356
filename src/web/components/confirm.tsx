/** Owns the confirmation before an action that cannot be undone. */
import { TextInput } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import { FormDialog } from './dialog.tsx';
import { useWrite } from '../state/write.ts';

export interface Confirmation {
  readonly title: string;
  readonly body: ReactNode;
  readonly action: string;
  readonly act: () => Promise<unknown>;
  /** With room for a preview of what it changes. */
  readonly isWide?: true;
  /** What the person types before, because so much goes with it. */
  readonly typed?: string;
}

function Question({
  confirmation: { title, body, action, act, isWide, typed },
  close,
}: {
  readonly confirmation: Confirmation;
  readonly close: () => void;
}): ReactNode {
  const [text, setText] = useState('');
  const write = useWrite(async () => {
    await act();
    close();
  });
  return (
    <FormDialog
      title={title}
      size={isWide === true ? 'xl' : 'md'}
      close={close}
      write={write}
      action={action}
      danger
      disabled={typed !== undefined && text.trim() !== typed.trim()}
      focusCancel={typed === undefined}
    >
      {typeof body === 'string' ? <p>{body}</p> : body}
      {typed === undefined ? null : (
        <TextInput
          label={`Type its name: ${typed}`}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          autoComplete="off"
          data-autofocus
        />
      )}
    </FormDialog>
  );
}

export function Confirm({
  confirmation,
  close,
}: {
  readonly confirmation: Confirmation | undefined;
  readonly close: () => void;
}): ReactNode {
  return confirmation === undefined ? null : <Question confirmation={confirmation} close={close} />;
}
