/** Owns families of commands: a command line that begins with a word of one family loads only that family. */
import type { Command } from 'commander';

export interface Family {
  /** The first words of its commands, all of them or none. */
  readonly words: readonly string[];
  /**
   * For a family without words: its command that reports on the command line after `--`, which begins with a word of
   * that command's family.
   */
  readonly tells?: string;
  readonly add: (program: Command) => void | Promise<void>;
}

/** Adds what the command line needs: the family of its first word, or all where it is no family's, as in help and in a slip of the pen. */
export async function addFamilies(
  program: Command,
  families: readonly Family[],
  args: readonly string[],
): Promise<void> {
  const [word, separator, about] = args;
  const telling = word !== undefined && separator === '--' ? families.filter(({ tells }) => tells === word) : [];
  const own = familiesOf(families, telling.length > 0 ? about : word);
  for (const { add } of own.length > 0 ? [...own, ...telling] : families) await add(program);
}

const familiesOf = (families: readonly Family[], word: string | undefined): readonly Family[] =>
  families.filter(({ words }) => word !== undefined && words.includes(word));
