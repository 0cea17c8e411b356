/**
 * Owns Mantine's variables as text. The build runs it and puts the text in place of `variables.css`: written in the browser, they
 * would take a slow phone 30 ms of each start.
 */
import {
  convertCssVariables,
  DEFAULT_THEME,
  defaultCssVariablesResolver,
  mergeMantineTheme,
  type CSSVariablesResolver,
} from '@mantine/core';
import { theme } from './theme.ts';

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

export const variables = convertCssVariables(readable(mergeMantineTheme(DEFAULT_THEME, theme)), ':root');
