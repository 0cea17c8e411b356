/** Owns the confirmation before something that cannot be taken back. */
import { Button, Modal } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import { DialogFoot } from './dialog-foot.tsx';
import { sentence } from './sentence.ts';

export interface Confirmation {
  readonly title: string;
  readonly body: ReactNode;
  /** What the button says: the action itself, never "OK". */
  readonly action: string;
  readonly act: () => Promise<unknown>;
}

export function Confirm({
  confirmation,
  close,
}: {
  readonly confirmation: Confirmation | undefined;
  readonly close: () => void;
}): ReactNode {
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState<unknown>();
  const leave = (): void => {
    setFault(undefined);
    close();
  };
  const act = (): void => {
    setBusy(true);
    setFault(undefined);
    confirmation
      ?.act()
      .then(leave, setFault)
      .finally(() => setBusy(false));
  };
  return (
    <Modal
      opened={confirmation !== undefined}
      onClose={leave}
      title={confirmation?.title}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <div className="stack">
        <div>{confirmation?.body}</div>
        <DialogFoot fault={fault === undefined ? undefined : sentence(fault)} cancel={leave} focusCancel>
          <Button color="red.9" loading={busy} onClick={act}>
            {confirmation?.action}
          </Button>
        </DialogFoot>
      </div>
    </Modal>
  );
}
