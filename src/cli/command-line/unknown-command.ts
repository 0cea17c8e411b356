/**
 * Owns the error for unknown commands, also where help is requested. A word of a similar tool gets our command as a
 * hint.
 */
import type { Command } from 'commander';
import { defaultOf } from './client-command.ts';

/** What people of other tools type for our words. */
const synonyms: ReadonlyMap<string, string> = new Map([
  ['revert', 'restore'],
  ['rollback', 'restore'],
  ['undo', 'restore'],
  ['add', 'create'],
  ['new', 'create'],
  ['get', 'show'],
  ['describe', 'show'],
  ['update', 'edit'],
  ['deny', 'revoke'],
  ['disallow', 'revoke'],
]);

/** The same for the first words: a whole command, because the word may be one of another noun. */
const commandsElsewhere: ReadonlyMap<string, string> = new Map([
  ['plan', 'diff'],
  ['get', 'group show, device show'],
  ['release', 'device release'],
  ['isolate', 'device isolate'],
  ['quarantine', 'device isolate'],
  ['acl', 'policy'],
  ['acls', 'policy'],
  ['firewall', 'group'],
  ['rule', 'group allow'],
  ['rules', 'group show'],
  ['node', 'device'],
  ['peers', 'device list'],
  ['tag', 'device label'],
  ['label add', 'device label add'],
  ['label remove', 'device label remove'],
]);

interface UnknownWord {
  readonly command: Command;
  readonly word: string;
  /** Its place among the arguments. */
  readonly at: number;
}

function findUnknown(program: Command, args: readonly string[]): UnknownWord | undefined {
  let command = program;
  for (const [at, word] of args.entries()) {
    if (word.startsWith('-') || command.commands.length === 0 || command.registeredArguments.length > 0)
      return undefined;
    const child = command.commands.find((one) => one.name() === word || one.aliases().includes(word));
    if (child === undefined) return { command, word, at };
    command = child;
  }
  return undefined;
}

/** The arguments to parse. `help group allow` asks for the same as `group allow --help`. With a word that is no command, the help of its parent would look like an answer. */
export function readCommandWords(program: Command, args: readonly string[]): readonly string[] {
  const asked = args[0] === 'help' ? [...args.slice(1), '--help'] : args;
  const unknown = findUnknown(program, asked);
  if (unknown === undefined) return asked;
  const { command, word, at } = unknown;
  const own = synonyms.get(word);
  const ours =
    own !== undefined && command.commands.some((one) => one.name() === own)
      ? own
      : commandsElsewhere.get(command === program ? word : `${command.name()} ${word}`);
  if (ours !== undefined)
    command.error(`unknown command '${word}' (Did you mean ${ours}?)`, { code: 'commander.unknownCommand' });
  // The word is an argument of the command that the noun means without one. Commander would lose a `--help` after it.
  const usual = defaultOf(command);
  if (usual !== undefined && usual.registeredArguments.length > 0)
    return [...asked.slice(0, at), usual.name(), ...asked.slice(at)];
  // Commander refuses the word and suggests another.
  return asked.filter((arg) => arg !== '--help' && arg !== '-h');
}
