/** Owns toasts: short messages after success or failure, with an undo right after a change. */
import { notifications } from '@mantine/notifications';
import { sentence } from './sentence.ts';
import { SmallButton } from './list.tsx';

const undoFor = 12_000;
const closeButtonProps = { 'aria-label': 'Close the message' };

export function notify(message: string, undo?: () => Promise<unknown>): void {
  const id = crypto.randomUUID();
  notifications.show({
    id,
    color: 'fence',
    autoClose: undo === undefined ? 5_000 : undoFor,
    withBorder: true,
    closeButtonProps,
    message:
      undo === undefined ? (
        message
      ) : (
        <div className="row between">
          <span>{message}</span>
          <SmallButton
            onClick={() => {
              notifications.hide(id);
              undo().then(
                () => notify('Undone.'),
                (error: unknown) => failed(error, 'It could not be undone'),
              );
            }}
          >
            Undo
          </SmallButton>
        </div>
      ),
  });
}

export function failed(error: unknown, title = 'Something went wrong'): void {
  notifications.show({
    color: 'red',
    title,
    message: sentence(error),
    autoClose: 10_000,
    withBorder: true,
    closeButtonProps,
  });
}
