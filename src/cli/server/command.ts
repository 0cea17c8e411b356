/** Owns the commands of the server: the one that runs it, and those that back up and restore its database. */
import type { Command } from 'commander';
import { serverOptions, type ServerValues } from '../../server/options/server-options.ts';
import { outliveReaders } from '../../node/lost-output.ts';
import { programVersion } from '../../node/version.ts';
import { toOption } from '../command-line/options.ts';

export function addServerCommand(program: Command): void {
  const server = program.command('server').description('run the API server');
  for (const spec of Object.values(serverOptions)) server.addOption(toOption(spec));
  server
    .addHelpText(
      'after',
      '\nThe first start creates the user `admin`. RINGFENCE_ADMIN_TOKEN sets its token; otherwise the server creates a token and prints it once.\n',
    )
    .action(async (values: ServerValues) => {
      outliveReaders();
      const { runServer } = await import('../../server/main.ts');
      process.exitCode = await runServer(values, { version: programVersion });
    });
}

export function addBackupCommands(program: Command): void {
  const { data, databaseUrl, postgresBin } = serverOptions;
  const options = [data, databaseUrl, postgresBin].map((spec) => toOption(spec));
  const command = (name: 'backup' | 'restore', description: string): Command => {
    const made = program.command(name).argument('<file>').description(description);
    for (const option of options) made.addOption(option);
    return made.action(
      async (
        file: string,
        {
          replace,
          unverified,
          webhooks,
          ...values
        }: ServerValues & { replace?: true; unverified?: true; webhooks?: boolean },
      ) => {
        const { runBackup } = await import('../../server/backup.ts');
        process.exitCode = await runBackup({ name, file, replace, unverified, webhooks }, values);
      },
    );
  };
  command('backup', "back up the server's database to a file; the server may be running").option(
    '--no-webhooks',
    'leave out webhooks, whose signing secrets would be in the file in clear text',
  );
  command('restore', "restore a backup into the server's database; no server may be running on it")
    .option('--replace', 'replace the current content of the database')
    .option(
      '--unverified',
      'restore a file that the key of this server does not vouch for, without what Ringfence does not make',
    );
}
