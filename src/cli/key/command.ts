/** Owns the commands about enrollment keys. */
import { Option, type Command } from 'commander';
import { addNoun, commandsOf, repeated } from '../command-line/client-command.ts';
import type { NewKey } from './run.ts';

const addCommand = commandsOf(() => import('./run.ts'));

export function addKeyCommands(program: Command): void {
  const key = addNoun(program, 'key', 'enrollment keys, which let agents register devices');
  addCommand(
    key,
    { usage: 'list', summary: 'list your enrollment keys, without their secrets', examples: ['ringfence key list'] },
    (run, session) => run.list(session),
  );
  addCommand(
    key,
    {
      usage: 'show <key>',
      summary: 'show an enrollment key, without its secret',
      examples: ['ringfence key show lab'],
    },
    (run, session, { args: [text = ''] }) => run.show(session, text),
  );
  addCommand<NewKey>(
    key,
    {
      usage: 'create [name]',
      dryRun: true,
      asksIfUnsure: true,
      summary:
        'create an enrollment key, which carries server and organization; it is shown only once and expires after 24 hours unless --expires says otherwise',
      options: [
        new Option('--uses <number>', 'how many devices the key can register').default('1'),
        new Option(
          '--expires <time>',
          'expiry time: a time like 2030-01-31T00:00:00Z, or 7d, 12h, 30m from now (default: 24 hours from now)',
        ),
        repeated('--group <name|id>', 'a group for every device that registers with the key'),
        repeated('--label <label>', 'a label for every device that registers with the key (owners only)'),
      ],
      examples: [
        'ringfence key create lab --uses 10 --expires 7d',
        'ringfence key create app-servers --label app --label prod --uses 20',
        'KEY=$(ringfence key create lab -q)',
      ],
    },
    (run, session, { args: [name], options }) => run.create(session, name, options),
  );
  addCommand(
    key,
    {
      usage: 'delete <key>',
      dryRun: true,
      summary: 'revoke an enrollment key',
      destructive: true,
      examples: ['ringfence key delete lab'],
    },
    (run, session, { args: [text = ''] }) => run.remove(session, text),
  );
}
