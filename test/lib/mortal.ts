/** Owns the tie between a test and the programs it starts: they end with it, also when it is killed and cannot clean up. */
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

const onPath = (program: string): boolean =>
  (process.env['PATH'] ?? '').split(delimiter).some((folder) => existsSync(join(folder, program)));

/** The kernel sends the signal when the starting process is gone; `setpriv` becomes the program, so that its process id is the program's. */
const tie = process.platform === 'linux' && onPath('setpriv') ? ['setpriv', '--pdeathsig', 'KILL', '--'] : [];

/** A command line that runs this one and ends with the process that started it. */
export function mortal(command: string, args: readonly string[]): readonly [command: string, args: readonly string[]] {
  const [program = command, ...rest] = [...tie, command, ...args];
  return [program, rest];
}
