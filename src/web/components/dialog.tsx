/** Owns dialogs: each is there while it is open, gives the focus back, and keeps its buttons in sight. A confirmation comes before what cannot be undone, and before unsaved work is lost. */
import { Button, Modal, TextInput, type ButtonProps, type ModalProps } from '@mantine/core';
import { useEffect, useState, type ReactNode } from 'react';
import { useWrite, type Write } from '../state/write.tsx';
import { useBlocker } from '@tanstack/react-router';

interface DialogProps extends Pick<ModalProps, 'size' | 'closeOnClickOutside' | 'closeOnEscape' | 'withCloseButton'> {
  readonly title: string;
  readonly close: () => void;
  readonly children: ReactNode;
}

export function Dialog({ close, ...rest }: DialogProps): ReactNode {
  const [before] = useState(() => document.activeElement);
  useEffect(
    () => () => {
      setTimeout(() => {
        if (document.activeElement === document.body && before instanceof HTMLElement)
          before.focus({ preventScroll: true });
      });
    },
    [before],
  );
  return <Modal {...rest} opened onClose={close} returnFocus={false} />;
}

/** The foot of a dialog: the error, the way out, and the buttons that act. */
export function DialogFoot({
  fault,
  cancel,
  cancelLabel = 'Cancel',
  focusCancel = false,
  children,
}: {
  readonly fault?: string | undefined;
  /** Absent where there is only one way on. */
  readonly cancel?: () => void;
  readonly cancelLabel?: string;
  /** Where the action cannot be taken back, the way out has the focus. */
  readonly focusCancel?: boolean;
  readonly children: ReactNode;
}): ReactNode {
  return (
    <div className="stack dialog-foot">
      {fault === undefined ? null : (
        <p className="fault" role="alert">
          {fault}
        </p>
      )}
      <div className="row end">
        {cancel === undefined ? null : (
          <Button variant="default" onClick={cancel} {...(focusCancel && { 'data-autofocus': true })}>
            {cancelLabel}
          </Button>
        )}
        {children}
      </div>
    </div>
  );
}

/** What a red button does takes something away. */
export const dangerous = { color: 'red.9' } as const;

/** A dialog that ends in one write. */
export function FormDialog({
  write: { submit, busy, fault },
  action,
  danger = false,
  disabled = false,
  focusCancel = false,
  cancelLabel = 'Cancel',
  others,
  children,
  ...dialog
}: DialogProps & {
  readonly write: Pick<Write<void>, 'submit' | 'busy' | 'fault'>;
  /** What the button says: the action itself, never "OK". Undefined: there is nothing that this person may do. */
  readonly action: string | undefined;
  readonly danger?: boolean;
  readonly disabled?: boolean;
  readonly focusCancel?: boolean;
  readonly cancelLabel?: string;
  /** Further buttons before the one that acts. */
  readonly others?: ReactNode;
}): ReactNode {
  return (
    <Dialog {...dialog}>
      <form
        className="stack"
        onSubmit={(event) => {
          // A dialog over this one is inside it for React.
          event.stopPropagation();
          submit(event);
        }}
      >
        {children}
        <DialogFoot fault={fault} cancel={dialog.close} cancelLabel={cancelLabel} focusCancel={focusCancel}>
          {others}
          {action === undefined ? null : (
            <Button type="submit" {...(danger && dangerous)} loading={busy} disabled={disabled}>
              {action}
            </Button>
          )}
        </DialogFoot>
      </form>
    </Dialog>
  );
}

/** A button that opens a dialog. */
export function DialogButton({
  name,
  dialog,
  ...look
}: Omit<ButtonProps, 'children'> & {
  readonly name: string;
  readonly dialog: (close: () => void) => ReactNode;
}): ReactNode {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button variant="default" {...look} onClick={() => setOpen(true)}>
        {name}
      </Button>
      {isOpen ? dialog(() => setOpen(false)) : null}
    </>
  );
}

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

export function LeaveGuard({ guarded }: { readonly guarded: () => boolean }): ReactNode {
  const { status, proceed, reset } = useBlocker({
    shouldBlockFn: guarded,
    enableBeforeUnload: guarded,
    withResolver: true,
  });
  if (status !== 'blocked') return null;
  return (
    <Dialog close={reset} title="Leave without saving?">
      <p>This group has changes that are not saved. Leaving discards them.</p>
      <DialogFoot cancel={proceed} cancelLabel="Leave and lose them">
        <Button onClick={reset} data-autofocus>
          Stay here
        </Button>
      </DialogFoot>
    </Dialog>
  );
}
