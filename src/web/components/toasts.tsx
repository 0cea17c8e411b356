/** Owns the place of the toasts. It is there from the first message on. */
import { Notifications } from '@mantine/notifications';
import type { ReactNode } from 'react';

export const Toasts = (): ReactNode => <Notifications position="bottom-right" limit={4} />;
