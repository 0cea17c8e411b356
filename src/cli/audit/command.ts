/** Owns the command that shows the audit log. */
import { Option, type Command } from 'commander';
import { commandsOf } from '../command-line/client-command.ts';
import type { AuditOptions } from './run.ts';

const addCommand = commandsOf(() => import('./run.ts'));

export function addAuditCommand(program: Command): void {
  addCommand<AuditOptions>(
    program,
    {
      usage: 'audit',
      summary: 'show who changed what, newest first (owners only)',
      options: [
        new Option('--limit <number>', 'maximum number of entries').default('50'),
        new Option('--all-organizations', 'show entries of the whole server (administrators only)'),
      ],
      examples: ['ringfence audit', 'ringfence audit --limit 500 -o json'],
    },
    (run, session, { options }) => run.list(session, options),
  );
}
