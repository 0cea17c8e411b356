/** Keeps the commands in the docs true: every command line that a page shows has a command and options that exist. */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Command, CommanderError } from 'commander';
import { expect, it } from 'vitest';
import { addAgentCommands } from '../../src/cli/agent/command.ts';
import { addClientCommands } from '../../src/cli/client-commands.ts';
import { readTree } from '../../src/cli/command-line/read-tree.ts';
import { readCommandWords } from '../../src/cli/command-line/unknown-command.ts';
import { writeReference } from '../../src/cli/reference/markdown.ts';
import { addBackupCommands, addServerCommand } from '../../src/cli/server/command.ts';

const top = fileURLToPath(new URL('../..', import.meta.url));
const pagesIn = (folder: string): readonly string[] =>
  readdirSync(`${top}${folder}`)
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${folder}${name}`);

const block = /^ *```.*\n([\s\S]*?)^ *```/gm;

/** What follows `ringfence` in the code of a page, to the end of the line. */
function commandLinesIn(markdown: string): readonly string[] {
  const blocks = [...markdown.matchAll(block)].flatMap(([, code = '']) => code.replaceAll(/\\\n\s*/g, ' ').split('\n'));
  const spans = [...markdown.replaceAll(block, '').matchAll(/`([^`]*)`/g)].map(([, code = '']) =>
    code.replaceAll('\n', ' '),
  );
  return [...blocks, ...spans].flatMap((line) =>
    [...line.matchAll(/(?<![\w./@:-])ringfence ([a-z][^`]*)/g)].flatMap(([, first = '']) =>
      first.split(/(?<![\w./@:-])ringfence (?=[a-z])/),
    ),
  );
}

/** The words of one command, without what stands for words: `[…]`. Of `list|show`, one command line for each. */
function readWords(line: string): readonly (readonly string[])[] {
  let found: readonly (readonly string[])[] = [[]];
  for (const [word] of line.matchAll(/(?:"[^"]*"|'[^']*'|[^\s"'])+|["']/g)) {
    if (/^(?:["']$|[#|;<>&]|\d[<>])/.test(word)) break;
    const choices = word.replaceAll(/^\[(?:options|command)\]$|^[[(]+|[\])…;]+$|["']/g, '').split('|');
    found = found.flatMap((words) => choices.map((choice) => (choice === '' ? words : [...words, choice])));
    if (/[);]$/.test(word)) break;
  }
  return found;
}

/** A page may leave out arguments and write `FILE` for any value: what it names must exist. */
function relax(command: Command): void {
  for (const option of command.options) {
    option.makeOptionMandatory(false);
    if (option.argChoices === undefined) option.argParser((text) => text);
  }
  for (const argument of command.registeredArguments) argument.argOptional();
  for (const child of command.commands) relax(child);
  if (command.commands.length === 0) command.action(() => undefined);
}

const silent = (): void => undefined;
const program = new Command('ringfence')
  .version('0')
  .enablePositionalOptions()
  .exitOverride()
  .configureOutput({ writeOut: silent, writeErr: silent });
for (const add of [addServerCommand, addBackupCommands, addAgentCommands]) add(program);
await addClientCommands(program);
program.command('version');
const reference = writeReference(readTree(program));
relax(program);

/** No faults: help, the version, and an option whose value the page leaves out. */
const harmless = new Set([
  'commander.help',
  'commander.helpDisplayed',
  'commander.version',
  'commander.optionMissingArgument',
]);

function faultOf(words: readonly string[]): string | undefined {
  if (words.join(' ') === 'help options') return undefined;
  try {
    program.parse(readCommandWords(program, words), { from: 'user' });
    return undefined;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return harmless.has(error.code) ? undefined : error.message;
  }
}

const faultsIn = (markdown: string): readonly string[] =>
  commandLinesIn(markdown).flatMap((line) =>
    readWords(line).flatMap((words) => {
      const fault = faultOf(words);
      return fault === undefined ? [] : [`ringfence ${words.join(' ')}: ${fault}`];
    }),
  );

it('every command in the docs has a command and options that exist', () => {
  const pages = [
    ...[...pagesIn(''), ...pagesIn('docs/')].map((name) => ({ name, text: readFileSync(`${top}${name}`, 'utf8') })),
    { name: 'ringfence reference', text: reference },
  ];
  expect(pages.flatMap(({ text }) => commandLinesIn(text)).length).toBeGreaterThan(400);
  expect(pages.flatMap(({ name, text }) => faultsIn(text).map((fault) => `${name}: ${fault}`))).toEqual([]);
});

it.each([
  ['`ringfence device update web-7`', /unknown command 'update'/],
  ['To read it, use `ringfence grup list`.', /unknown command 'grup'/],
  ['```sh\nKEY=$(ringfence key create --use 3 -q)\n```', /unknown option '--use'/],
  ['```\n$ ringfence agent --interface wg0 \\\n  --enrol KEY\n```', /unknown option '--enrol'/],
  ['`ringfence trial list|shwo`', /unknown command 'shwo'/],
  ['`ringfence status web-7`', /too many arguments/],
  ['`dev/lab/lab run device-1 -- ringfence agent statsu`', /unknown command 'statsu'/],
])('a page that shows %j is found', (page, fault) => {
  expect(faultsIn(page)).toEqual([expect.stringMatching(fault)]);
});

it.each([
  ['`ringfence test -f policy.yaml`, `ringfence evidence db-1 --at 2026-11-09 [--to …]`, `ringfence help options`'],
  ['`ringfence agent --interface IFNAME [--server URL] (--device ID --token-file F | --enroll KEY) …`'],
  ['```sh\nringfence diff policy.yaml 2>&1 | less # a comment\nid=$(ringfence trial list -q) && ./test "$id"\n```'],
  ['The package ringfence installs `/usr/bin/ringfence`, and `org.ringfence update` is another program.'],
])('a page that shows %j is right', (page) => {
  expect(faultsIn(page)).toEqual([]);
});
