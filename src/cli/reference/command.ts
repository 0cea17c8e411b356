/** Owns the command that prints the reference of all commands. */
import type { Command } from 'commander';
import { readTree } from '../command-line/read-tree.ts';

export function addReferenceCommand(program: Command): void {
  program
    .command('reference', { hidden: true })
    .description('Print the reference of all commands as Markdown.')
    .action(async () => {
      const { writeReference } = await import('./markdown.ts');
      process.stdout.write(writeReference(readTree(program)));
    });
}
