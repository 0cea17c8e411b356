/** Owns the place of the short messages. It comes after the page: nothing has happened yet that one could tell. */
import { Notifications } from '@mantine/notifications';
import type { ReactNode } from 'react';

export const Toasts = (): ReactNode => <Notifications position="bottom-right" limit={4} />;
