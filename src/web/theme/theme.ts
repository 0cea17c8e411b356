/** Owns the look: Mantine's theme. */
import { createTheme } from '@mantine/core';

const closeButtonProps = { 'aria-label': 'Close' };

export const theme = createTheme({
  primaryColor: 'fence',
  // Chosen so that white on it, and it on white, stay readable (4.5 : 1 and more).
  primaryShade: { light: 7, dark: 7 },
  colors: {
    // Mantine's greys are neutral; these lean towards the accent, like every other surface here.
    dark: [
      '#dbe3e2',
      '#c2cccb',
      '#a3aeb0',
      '#7c8886',
      '#3b4947',
      '#2b3735',
      '#19211f',
      '#141b1a',
      '#101615',
      '#0d1211',
    ],
    fence: [
      '#e7f5f4',
      '#d2eae9',
      '#a6d6d4',
      '#76c0be',
      '#4faeac',
      '#2f9492',
      '#1f8583',
      '#0f716f',
      '#0b5e5d',
      '#064a49',
    ],
  },
  // Fonts made for interfaces, before what a system calls its own: on many Linux machines that is DejaVu.
  fontFamily:
    'Inter, -apple-system, BlinkMacSystemFont, "Segoe UI Variable Text", "Segoe UI", Roboto, "Noto Sans", Cantarell, Ubuntu, "Liberation Sans", Arial, sans-serif',
  fontFamilyMonospace: 'ui-monospace, "SF Mono", "Cascadia Code", "JetBrains Mono", Menlo, Consolas, monospace',
  defaultRadius: 'md',
  cursorType: 'pointer',
  respectReducedMotion: true,
  components: {
    // Locking the page behind a dialog would need an inline style.
    Modal: { defaultProps: { lockScroll: false, radius: 'lg', centered: true, closeButtonProps } },
    Drawer: { defaultProps: { lockScroll: false, closeButtonProps } },
    // Closed lists are not rendered: five filters would take longer to appear than the devices below them.
    Combobox: { defaultProps: { keepMounted: false } },
    ActionIcon: { defaultProps: { variant: 'subtle', color: 'gray' } },
    Tooltip: { defaultProps: { withArrow: true, openDelay: 300 } },
    Menu: { defaultProps: { shadow: 'md' } },
  },
});
