/** Owns the switch between light and dark. */
import { ActionIcon, useComputedColorScheme, useMantineColorScheme } from '@mantine/core';
import type { ReactNode } from 'react';
import { MoonIcon, SunIcon } from '../components/icons.tsx';

export function SchemeToggle(): ReactNode {
  // Holding transitions back meanwhile would need an inline style.
  const { setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  const scheme = useComputedColorScheme('light');
  const next = scheme === 'dark' ? 'light' : 'dark';
  return (
    <ActionIcon size="lg" aria-label={`Use the ${next} colours`} onClick={() => setColorScheme(next)}>
      {scheme === 'dark' ? <SunIcon /> : <MoonIcon />}
    </ActionIcon>
  );
}
