/** Owns the commands that describe the commands: completion for shells, and the reference. */
import { Argument, type Command } from 'commander';
import { addExamples } from '../command.ts';

const shells = ['bash', 'zsh', 'fish'] as const;

export function addDescriptionCommands(program: Command): void {
  const completion = program
    .command('completion')
    .summary('print the completion script of a shell')
    .description('Print the completion script of a shell.')
    .addArgument(new Argument('<shell>', 'which shell').choices(shells))
    .action(async (shell: (typeof shells)[number]) => {
      const [{ completionScript }, { readTree }] = await Promise.all([
        import('../completion.ts'),
        import('../tree.ts'),
      ]);
      process.stdout.write(completionScript(shell, readTree(program)));
    });
  addExamples(completion, [
    'source <(ringfence completion bash)',
    'ringfence completion zsh > "${fpath[1]}/_ringfence"',
    'ringfence completion fish > ~/.config/fish/completions/ringfence.fish',
  ]);
  program
    .command('reference', { hidden: true })
    .description('Print docs/cli.md.')
    .action(async () => {
      const [{ writeReference }, { readTree }] = await Promise.all([import('../reference.ts'), import('../tree.ts')]);
      process.stdout.write(writeReference(readTree(program)));
    });
}
