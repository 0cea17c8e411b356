/** Owns dialogs that cost nothing until they are first opened: a closed one of Mantine sets timers and listeners, and pages have several. */
import { Button, Modal, type ModalProps } from '@mantine/core';
import { useEffect, useState, type ReactNode } from 'react';

export function Dialog({ opened, ...rest }: ModalProps): ReactNode {
  const [wasOpened, setWasOpened] = useState(false);
  useEffect(() => {
    if (opened) setWasOpened(true);
  }, [opened]);
  // It opens after it is there: then it remembers where the focus was, and gives it back.
  return opened || wasOpened ? <Modal {...rest} opened={opened && wasOpened} /> : null;
}

/** A button that opens a dialog. */
export function DialogButton({
  name,
  children,
}: {
  readonly name: string;
  readonly children: (close: () => void) => ReactNode;
}): ReactNode {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button variant="default" onClick={() => setOpen(true)}>
        {name}
      </Button>
      {isOpen ? children(() => setOpen(false)) : null}
    </>
  );
}
