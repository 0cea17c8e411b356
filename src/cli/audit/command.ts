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
      summary: 'show who changed what, newest first (for the owner)',
      options: [
        new Option('--limit <number>', 'at most so many entries').default('50'),
        new Option('--all-organizations', 'of the whole server (for its administrator)'),
      ],
      examples: ['ringfence audit', 'ringfence audit --limit 500 -o json'],
    },
    (run, session, { options }) => run.list(session, options),
  );
}
