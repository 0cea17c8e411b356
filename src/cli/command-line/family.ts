/** Owns families of commands: a command line that begins with a word of one does not wait for the others to be described. */
import type { Command } from 'commander';

export interface Family {
  /** The first words of its commands, all of them or none. */
  readonly words: readonly string[];
  readonly add: (program: Command) => void;
}

/** Adds what the first word needs: its own family, or all where it is no family's, as in help and in a slip of the pen. */
export function addFamilies(program: Command, families: readonly Family[], word: string | undefined): void {
  const own = families.filter(({ words }) => word !== undefined && words.includes(word));
  for (const { add } of own.length > 0 ? own : families) add(program);
}
