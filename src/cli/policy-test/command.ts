/** Owns the command about policy tests. */
import { Option, type Command } from 'commander';
import { commandsOf } from '../command-line/client-command.ts';
import type { TestOptions } from './run.ts';

const addCommand = commandsOf(() => import('./run.ts'));

export function addTestCommand(program: Command): void {
  addCommand<TestOptions>(
    program,
    {
      usage: 'test',
      summary: 'run the policy tests of the organization: what must be allowed or refused, and whether it is',
      about:
        'The server also runs these tests inside every write that can change a verdict, and refuses a write that breaks one. ' +
        'A test that no pair of devices matches is vacuous: it checks nothing. Exits with 1 if a test fails.',
      options: [new Option('--vacuous-fails', 'exit with 1 also if a test is vacuous')],
      examples: ['ringfence test', 'ringfence test --vacuous-fails', 'ringfence test -o json'],
    },
    (run, session, { options }) => run.test(session, options),
  );
}
