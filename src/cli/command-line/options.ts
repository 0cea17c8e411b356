/**
 * Owns the conversion of option tables into commander's options, so that every part of the program declares its options
 * as data.
 */
import { InvalidArgumentError, Option } from 'commander';
import type { OptionSpec } from '../../node/command-line.ts';

export function toOption({ flags, env, help, fallback, read }: OptionSpec): Option {
  const option = new Option(flags, help).env(env);
  if (fallback !== undefined && fallback !== false) {
    option.default(read === undefined ? fallback : read(String(fallback)), String(fallback));
  }
  if (read !== undefined) {
    option.argParser((text: string) => {
      try {
        return read(text);
      } catch (error) {
        throw new InvalidArgumentError(error instanceof Error ? error.message : 'It is invalid.');
      }
    });
  }
  return option;
}
