/** Owns a dialog that costs nothing until it is first opened: a closed one of Mantine sets timers and listeners, and pages have several. */
import { Modal, type ModalProps } from '@mantine/core';
import { useEffect, useState, type ReactNode } from 'react';

export function Dialog({ opened, ...rest }: ModalProps): ReactNode {
  const [wasOpened, setWasOpened] = useState(false);
  useEffect(() => {
    if (opened) setWasOpened(true);
  }, [opened]);
  // It opens after it is there: then it remembers where the focus was, and gives it back.
  return opened || wasOpened ? <Modal {...rest} opened={opened && wasOpened} /> : null;
}
