/** Owns the question before something that cannot be taken back. */
import { Button, Modal } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import { DialogFoot } from './dialog-foot.tsx';
import { sentence } from './sentence.ts';

export interface Question {
  readonly title: string;
  readonly body: ReactNode;
  /** What the button says: the action itself, never "OK". */
  readonly action: string;
  readonly act: () => Promise<unknown>;
}

export function Confirm({
  question,
  close,
}: {
  readonly question: Question | undefined;
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
    question
      ?.act()
      .then(leave, setFault)
      .finally(() => setBusy(false));
  };
  return (
    <Modal
      opened={question !== undefined}
      onClose={leave}
      title={question?.title}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <div className="stack">
        <div>{question?.body}</div>
        <DialogFoot fault={fault === undefined ? undefined : sentence(fault)} cancel={leave} focusCancel>
          <Button color="red.9" loading={busy} onClick={act}>
            {question?.action}
          </Button>
        </DialogFoot>
      </div>
    </Modal>
  );
}
