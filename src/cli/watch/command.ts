/** Owns the command that follows changes as they happen. */
import { Option, type Command } from 'commander';
import { commandsOf } from '../command-line/client-command.ts';
import type { FollowOptions } from './run.ts';

const addCommand = commandsOf(() => import('./run.ts'));

export function addWatchCommand(program: Command): void {
  addCommand<FollowOptions>(
    program,
    {
      usage: 'watch [kinds...]',
      summary: 'follow changes as they happen',
      about:
        'Kinds are `device` and `security-groups`; none named, both. Resumes by itself when the connection is lost.',
      options: [new Option('--no-initial', 'leave out what is there already')],
      examples: [
        'ringfence watch',
        'ringfence watch device --no-initial',
        'ringfence watch -o json | jq .value.hostname',
      ],
    },
    (run, session, { args, options }) => run.follow(session, args, options),
  );
}
