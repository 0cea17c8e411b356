/** Owns the confirmation before unsaved work is lost, inside the page and when the tab closes. */
import { Button, Modal } from '@mantine/core';
import { useBlocker } from '@tanstack/react-router';
import type { ReactNode } from 'react';

export function LeaveGuard({ guarded }: { readonly guarded: () => boolean }): ReactNode {
  const { status, proceed, reset } = useBlocker({
    shouldBlockFn: guarded,
    enableBeforeUnload: guarded,
    withResolver: true,
  });
  return (
    <Modal opened={status === 'blocked'} onClose={() => reset?.()} title="Leave without saving?">
      <div className="stack">
        <p>This group has changes that are not saved. Leaving discards them.</p>
        <div className="row end">
          <Button variant="default" onClick={() => proceed?.()}>
            Leave and lose them
          </Button>
          <Button onClick={() => reset?.()} data-autofocus>
            Stay here
          </Button>
        </div>
      </div>
    </Modal>
  );
}
