/** Owns the program's entry: its commands, each loaded only when needed, and the response to a wrong command line. */
import { Command, CommanderError } from 'commander';
import { addAgentCommands } from './agent/command.ts';
import { runIfAgent } from './agent/run.ts';
import { clientFamilies } from './client-commands.ts';
import { commonOptionsHelp, shortHelp } from './command-line/client-command.ts';
import { addFamilies, type Family } from './command-line/family.ts';
import { readCommandWords } from './command-line/unknown-command.ts';
import { addBackupCommands, addServerCommand } from './server/command.ts';
import { printable } from '../policy/names/printable.ts';
import { isOff } from '../node/environment.ts';
import { programVersion } from '../node/version.ts';

/** Exit codes (reference: Programs). */
const wrongUsage = 2;

/** One clear line, whatever commander would have said in several. */
const oneLine = (text: string): string =>
  `ringfence: ${printable(
    text
      .replace(/^error: /, '')
      .trim()
      .replace(/\s*\n\s*/g, ' '),
  )}\n`;

const families: readonly Family[] = [
  { words: ['server'], add: addServerCommand },
  { words: ['backup', 'restore'], add: addBackupCommands },
  { words: ['agent'], add: addAgentCommands },
  ...clientFamilies,
  { words: ['version'], add: addVersionCommand },
];

const firstSteps = `
First steps:
  $ ringfence login http://127.0.0.1:8080   # sign in to a server
  $ ringfence org create acme               # an organization of your own
  $ ringfence key create                    # a key that lets devices join
  $ ringfence group create web --in https --applies-to label:web
  $ ringfence status                        # is it in force, and where not?

Options of every command: ringfence help options`;

async function build(args: readonly string[]): Promise<Command> {
  const program = new Command('ringfence')
    .description('Security groups for fleets of Linux devices.')
    .version(programVersion, '-v, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    // After a command, `-v` is the command's own.
    .enablePositionalOptions()
    .showSuggestionAfterError(true)
    .configureHelp(shortHelp)
    .addHelpText('after', firstSteps)
    .configureOutput({ outputError: (text, write) => write(oneLine(text)) })
    .exitOverride();
  await addFamilies(program, families, args);
  return program;
}

function addVersionCommand(program: Command): void {
  program
    .command('version')
    .summary('print the version')
    .description('Print the version.')
    .action(() => {
      process.stdout.write(`${programVersion}\n`);
    });
}

/** An empty variable says as little as an absent one. */
function dropEmptyVariables(env: NodeJS.ProcessEnv): void {
  for (const name of Object.keys(env)) if (name.startsWith('RINGFENCE_') && env[name] === '') delete env[name];
}

/** A variable that says no to an option without a value says as little: commander would take any text for a yes. */
function dropRefusals(command: Command, env: NodeJS.ProcessEnv): void {
  for (const { envVar, required, optional } of command.options) {
    if (envVar !== undefined && !required && !optional && isOff(env[envVar] ?? '')) delete env[envVar];
  }
  for (const child of command.commands) dropRefusals(child, env);
}

/** Runs one command; its exit code is that of the process. */
export async function main(args: readonly string[]): Promise<void> {
  dropEmptyVariables(process.env);
  // The reader of the help may close the pipe early (`| head`): that is not a failure.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    process.exit(0);
  });
  try {
    if (args.join(' ') === 'help options') {
      process.stdout.write(commonOptionsHelp());
    } else if (!(await runIfAgent(args))) {
      const program = await build(args);
      dropRefusals(program, process.env);
      await program.parseAsync([...readCommandWords(program, args)], { from: 'user' });
    }
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    process.exitCode = error.exitCode === 0 ? 0 : wrongUsage;
  }
}

await main(process.argv.slice(2));
