/** Owns the confirmation before an action that cannot be undone. */
import { Button } from '@mantine/core';
import type { ReactNode } from 'react';
import { Dialog } from './dialog.tsx';
import { DialogFoot } from './dialog-foot.tsx';
import { useWrite } from '../state/write.ts';

export interface Confirmation {
  readonly title: string;
  readonly body: ReactNode;
  /** What the button says: the action itself, never "OK". */
  readonly action: string;
  readonly act: () => Promise<unknown>;
  /** With room for a preview of what it changes. */
  readonly isWide?: true;
}

export function Confirm({
  confirmation,
  close,
}: {
  readonly confirmation: Confirmation | undefined;
  readonly close: () => void;
}): ReactNode {
  const { start, busy, fault, forget } = useWrite(async () => {
    await confirmation?.act();
    close();
  });
  const leave = (): void => {
    forget();
    close();
  };
  return (
    <Dialog
      opened={confirmation !== undefined}
      onClose={leave}
      title={confirmation?.title}
      size={confirmation?.isWide === true ? 'xl' : 'md'}
    >
      <div className="stack">
        <div>{confirmation?.body}</div>
        <DialogFoot fault={fault} cancel={leave} focusCancel>
          <Button color="red.9" loading={busy} onClick={() => start()}>
            {confirmation?.action}
          </Button>
        </DialogFoot>
      </div>
    </Dialog>
  );
}
