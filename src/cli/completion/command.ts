/** Owns the commands that complete a half-typed command line. */
import { Argument, type Command } from 'commander';
import { addExamples, commandsOf } from '../command-line/client-command.ts';
import { readTree } from '../command-line/read-tree.ts';

const addCommand = commandsOf(() => import('./complete.ts'));

const shells = ['bash', 'zsh', 'fish'] as const;

/** How each shell is made to know the script from its next start on. */
const installHelp: { readonly [S in (typeof shells)[number]]: string } = {
  bash: 'To install it: ringfence completion bash > ~/.local/share/bash-completion/completions/ringfence',
  zsh: 'To install it: ringfence completion zsh > "${fpath[1]}/_ringfence", and start a new shell',
  fish: 'To install it: ringfence completion fish > ~/.config/fish/completions/ringfence.fish',
};

export function addCompletionCommands(program: Command): void {
  const completion = program
    .command('completion')
    .summary('print the completion script of a shell')
    .description(
      'Print the completion script of a shell. On a terminal, also print how to install it.\n\nWhile you type, completion asks this program for commands and options, and the server for the names of groups, devices, labels, organizations, members, tokens and keys. If the server does not answer quickly, completion leaves these names out.',
    )
    .addArgument(new Argument('<shell>', 'which shell').choices(shells))
    .action(async (shell: (typeof shells)[number]) => {
      const { completionScripts } = await import('./script.ts');
      process.stdout.write(completionScripts[shell]);
      // A user who sees the script on the screen wanted to install it.
      if (process.stdout.isTTY) process.stderr.write(`\n${installHelp[shell]}\n`);
    });
  addExamples(completion, [
    'source <(ringfence completion bash)',
    'ringfence completion bash > ~/.local/share/bash-completion/completions/ringfence',
    'ringfence completion zsh > "${fpath[1]}/_ringfence"',
    'ringfence completion fish > ~/.config/fish/completions/ringfence.fish',
  ]);
  addCommand(
    program,
    {
      usage: 'complete [words...]',
      summary: 'print what may stand for the last of these words, one completion per line',
      hidden: true,
      examples: ['ringfence complete -- group sh', "ringfence complete -- group show ''"],
    },
    ({ complete }, session, { args }) => complete(session, readTree(program), args),
  );
}
