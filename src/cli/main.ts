/** Owns the one program: which commands there are, loaded only when asked for, and what a wrong command line answers. */
import { Command, CommanderError } from 'commander';
import { serverOptions, type ServerValues } from '../server/options.ts';
import { addClientCommands } from './client-commands.ts';
import { toOption } from './options.ts';
import { programVersion } from './version.ts';

/** Exit codes (reference: Programs). */
const wrongUsage = 2;

/** One clear line, whatever commander would have said in several. */
const oneLine = (text: string): string =>
  `ringfence: ${text
    .replace(/^error: /, '')
    .trim()
    .replace(/\s*\n\s*/g, ' ')}\n`;

function build(): Command {
  const program = new Command('ringfence')
    .description('Security groups for fleets of Linux devices.')
    .version(programVersion, '--version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .showSuggestionAfterError(true)
    .configureHelp({ showGlobalOptions: false })
    .configureOutput({ outputError: (text, write) => write(oneLine(text)) })
    .exitOverride();
  addServer(program);
  addClientCommands(program);
  return program;
}

function addServer(program: Command): void {
  const server = program.command('server').description('run the API server');
  for (const spec of Object.values(serverOptions)) server.addOption(toOption(spec));
  server
    .addHelpText(
      'after',
      '\nThe first start makes the user `admin`; RINGFENCE_ADMIN_TOKEN sets its token, otherwise one is made and shown once.\n',
    )
    .action(async (values: ServerValues) => {
      const { runServer } = await import('../server/main.ts');
      process.exitCode = await runServer(values);
    });
}

/** An empty variable says as little as an absent one. */
function dropEmptyVariables(env: NodeJS.ProcessEnv): void {
  for (const name of Object.keys(env)) if (name.startsWith('RINGFENCE_') && env[name] === '') delete env[name];
}

dropEmptyVariables(process.env);
try {
  await build().parseAsync(process.argv);
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
  process.exitCode = error.exitCode === 0 ? 0 : wrongUsage;
}
