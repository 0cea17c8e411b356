/** Owns the confirmation before unsaved work is lost, inside the page and when the tab closes. */
import { Button } from '@mantine/core';
import { useBlocker } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { Dialog, DialogFoot } from './dialog.tsx';

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
