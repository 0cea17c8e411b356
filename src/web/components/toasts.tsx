/** Owns the place of the toasts. It loads after the page, because there is no message before. */
import { Notifications } from '@mantine/notifications';
import type { ReactNode } from 'react';

export const Toasts = (): ReactNode => <Notifications position="bottom-right" limit={4} />;
