/** Owns dialogs: each is there while it is open, gives the focus back, and keeps its buttons in sight. */
import { Button, Modal, type ButtonProps, type ModalProps } from '@mantine/core';
import { useEffect, useState, type ReactNode } from 'react';
import type { Write } from '../state/write.ts';

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
