/** Owns the foot of every dialog: the error, the cancel button, and the action. */
import { Button } from '@mantine/core';
import type { ReactNode } from 'react';

export function DialogFoot({
  fault,
  cancel,
  focusCancel = false,
  children,
}: {
  readonly fault?: string | undefined;
  readonly cancel: () => void;
  /** Where the action cannot be taken back, the way out has the focus. */
  readonly focusCancel?: boolean;
  /** The button that acts. */
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
        <Button variant="default" onClick={cancel} {...(focusCancel && { 'data-autofocus': true })}>
          Cancel
        </Button>
        {children}
      </div>
    </div>
  );
}
