/** Owns the look: Mantine's theme, and its variables as a constructed style sheet, because the page allows no inline style. */
import {
  convertCssVariables,
  createTheme,
  DEFAULT_THEME,
  defaultCssVariablesResolver,
  mergeMantineTheme,
  type CSSVariablesResolver,
} from '@mantine/core';

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
  fontFamily: 'Inter, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',
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

/** Colours that Mantine chooses too pale to read. */
const readable: CSSVariablesResolver = (full) => {
  const variables = defaultCssVariablesResolver(full);
  return {
    variables: variables.variables,
    light: {
      ...variables.light,
      '--mantine-color-dimmed': '#56606a',
      '--mantine-color-placeholder': '#69727b',
      '--mantine-color-error': '#b42318',
      '--mantine-color-body': '#ffffff',
      '--mantine-color-text': '#16211f',
    },
    dark: {
      ...variables.dark,
      '--mantine-color-dimmed': '#a3aeb0',
      '--mantine-color-placeholder': '#929da0',
      '--mantine-color-error': '#ff9b90',
      '--mantine-color-body': '#121817',
      '--mantine-color-text': '#e3e9e8',
      '--mantine-color-default': '#1b2322',
      '--mantine-color-default-hover': '#232d2c',
      '--mantine-color-default-border': '#33403e',
      '--mantine-color-anchor': '#76c0be',
    },
  };
};

export function adoptVariables(): void {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(convertCssVariables(readable(mergeMantineTheme(DEFAULT_THEME, theme)), ':root'));
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}
