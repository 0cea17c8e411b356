/** Owns the construction of client commands: their common options, their examples, and how they run. */
import { Command, Help, Option } from 'commander';
import { outputs } from '../terminal/output.ts';
import type { GlobalValues, Session } from '../session/session.ts';

export interface Invocation<Options> {
  /** The arguments, those that may be many spread out. */
  readonly args: readonly string[];
  readonly options: Options;
}

const heading = 'Options of every command:';

/** Made once: the commands are many, and each start pays for every option. */
const globalOptions: readonly Option[] = [
  new Option('--server <url>', 'URL of the server (default: from the profile)').env('RINGFENCE_SERVER'),
  new Option('--token-file <file>', 'read the token from a file (or set RINGFENCE_TOKEN to the token)').env(
    'RINGFENCE_TOKEN_FILE',
  ),
  new Option('--org <name|id>', 'the organization (default: from the profile)').env('RINGFENCE_ORG'),
  new Option('--profile <name>', 'the profile that `ringfence login` stored').env('RINGFENCE_PROFILE'),
  new Option('-o, --output <format>', 'output format; `wide` is a table with every column and ids in full')
    .choices(outputs)
    .default('table')
    .env('RINGFENCE_OUTPUT'),
  new Option('--no-headers', 'print tables without header rows'),
  new Option('-q, --quiet', 'print only ids, or only the new secret').env('RINGFENCE_QUIET'),
  new Option('--no-color', 'no colors (same as NO_COLOR; output to a pipe never has colors)'),
].map((option) => option.helpGroup(heading));

const helpOption = new Option('-h, --help', 'print this help').helpGroup(heading);
const waitOption = new Option(
  '--wait [duration]',
  'wait until every connected device that the change concerns enforces it, for up to 2 minutes or the given time: --wait=30s',
);
const waitForOption = new Option(
  '--wait-for <devices>',
  'with --wait: `online`, or `all` to wait also for devices that are away or were never installed',
)
  .choices(['online', 'all'])
  .default('online');
const detachOption = new Option(
  '--detach',
  'continue even if a device is left without groups, so that the default group applies to it',
);
const dryRunOption = new Option('--dry-run', 'print what would change, without changing anything');
const yesOption = new Option('-y, --yes', 'answer yes to every question').env('RINGFENCE_YES').helpGroup(heading);
const sureOption = new Option('-y, --yes', 'do not ask about a label or a name that looks like a mistake').env(
  'RINGFENCE_YES',
);

/** Of commands that ask nothing: a script may give it to every command. Help does not show it there. */
const idleYesOption = new Option('-y, --yes', 'this command asks nothing').env('RINGFENCE_YES').hideHelp();

export const forceOption = (): Option => new Option('--force', 'continue even if a guardrail blocks a whole direction');

export const skipTestsOption = (): Option =>
  new Option('--skip-tests', 'continue even if a policy test fails by this (owners only; the log records it)');

/** An option of a plain noun. */
export interface OptionText {
  readonly flags: string;
  readonly help: string;
  readonly choices?: readonly string[];
  readonly fallback?: string;
  /** It may be given several times. */
  readonly repeats?: true;
}

function optionOf({ flags, help, choices, fallback, repeats }: OptionText): Option {
  const option = repeats === true ? repeated(flags, help) : new Option(flags, help);
  if (choices !== undefined) option.choices(choices);
  return fallback === undefined ? option : option.default(fallback);
}

export interface CommandSpec {
  /** Name and arguments as commander reads them: `show <group>`. */
  readonly usage: string;
  readonly summary: string;
  /** What may be said beyond the summary. */
  readonly about?: string;
  readonly options?: readonly Option[];
  readonly examples: readonly string[];
  /** Asks before it acts, so it takes `--yes`. */
  readonly destructive?: true;
  /** Asks on a terminal where the command looks like a mistake, so it takes `--yes`. */
  readonly asksIfUnsure?: true;
  /** Writes policy, so it takes `--wait`; and `--skip-tests`, unless policy tests never refuse what it writes. */
  readonly policy?: true | 'untested';
  /** Writes what can be tried, so it takes `--confirm-within` and `--on`. */
  readonly trial?: true;
  /** May leave devices without groups, so it takes `--detach`. */
  readonly detach?: true;
  /** Can tell what it would change, so it takes `--dry-run`. */
  readonly dryRun?: true;
  /** What its parent does where no command follows. */
  readonly isDefault?: true;
  /** For programs: help does not show it. */
  readonly hidden?: true;
}

const defaults = new WeakMap<Command, Command>();

/** What a noun does where no command follows. */
export const defaultOf = (noun: Command): Command | undefined => defaults.get(noun);

/** Adds a command that acts on a server. */
function addCommand<Options extends object = object>(
  parent: Command,
  spec: CommandSpec,
  run: (session: Session, invocation: Invocation<Options>) => Promise<void>,
): Command {
  const given = { hidden: spec.hidden === true, isDefault: spec.isDefault === true };
  const command = describe(parent.command(spec.usage, given), spec);
  if (spec.isDefault === true) defaults.set(parent, command);
  return command.action(async () => {
    const options = command.opts();
    const args = command.processedArgs.flat().filter(isText);
    const { runAction } = await import('../session/run.ts');
    const values = options as unknown as GlobalValues;
    await runAction(values, async (session) => {
      const waits = spec.policy !== undefined && values.wait !== undefined;
      // Before anything is written: a duration that is none must not be found afterwards.
      if (waits && values.wait !== true) (await import('../terminal/time.ts')).readDuration(values.wait ?? '');
      if (spec.policy !== undefined && values.waitFor === 'all' && !waits)
        throw (await import('../terminal/exit.ts')).usageError('--wait-for needs --wait');
      const since = waits ? await (await import('../session/wait.ts')).revisionBefore(session) : undefined;
      if (spec.trial === true) await (await import('../session/trial-scope.ts')).checkTrial(session);
      await run(session, { args, options: options as Options });
      if (session.startedTrial !== undefined) await (await import('../session/try-change.ts')).followTrial(session);
      else if (waits) await (await import('../session/wait.ts')).waitInForce(session, values.wait ?? true, since);
    });
  });
}

/** A command as data, and what it does. */
export interface PlainCommand<Options = object> extends Omit<CommandSpec, 'options'> {
  readonly options?: readonly OptionText[];
  run(session: Session, invocation: Invocation<Options>): Promise<void>;
}

/** A noun as data: its declaration and its work are one module, which is loaded only where the noun is typed. */
export interface PlainNoun {
  readonly word: string;
  readonly summary: string;
  readonly commands: readonly PlainCommand[];
}

export function addPlainNoun(program: Command, { word, summary, commands }: PlainNoun): void {
  const noun = addNoun(program, word, summary);
  for (const { options = [], ...command } of commands)
    addCommand(noun, { ...command, options: options.map(optionOf) }, (session, given) => command.run(session, given));
}

/** Adds commands whose work is in the module that `load` imports: only when one of them runs, so that help does not wait for it. */
export const commandsOf =
  <Module>(load: () => Promise<Module>) =>
  <Options extends object = object>(
    parent: Command,
    spec: CommandSpec,
    run: (module: Module, session: Session, invocation: Invocation<Options>) => Promise<void>,
  ): Command =>
    addCommand<Options>(parent, spec, async (session, invocation) => run(await load(), session, invocation));

/** Help of a command leaves out the options of every command: `ringfence help options` shows them. */
class ShortHelp extends Help {
  override visibleOptions(command: Command): Option[] {
    return super.visibleOptions(command).filter((option) => !globalOptions.includes(option));
  }
}

export const shortHelp = {
  // Not by `visibleOptions`: commander also looks there for the option that a mistyped one is nearest to.
  formatHelp: (command: Command, { helpWidth }: Help): string => {
    const short = Object.assign(new ShortHelp(), helpWidth === undefined ? {} : { helpWidth });
    return short.formatHelp(command, short);
  },
};

export function commonOptionsHelp(): string {
  const all = new Command('ringfence').usage('<command> [options]').addHelpOption(helpOption);
  all.description('These options work with every client command, next to those that the help of the command shows.');
  for (const option of [yesOption, ...globalOptions]) all.addOption(option);
  return all.helpInformation();
}

/** What fingers type by habit. */
const habits: Readonly<Record<string, string>> = { list: 'ls', delete: 'rm', remove: 'rm' };

function describe(command: Command, spec: CommandSpec): Command {
  const { summary, about, options = [], destructive, asksIfUnsure, policy, trial, detach, dryRun } = spec;
  command.summary(summary).description(about === undefined ? sentence(summary) : `${sentence(summary)}\n\n${about}`);
  const habit = habits[command.name()];
  if (habit !== undefined) command.alias(habit);
  command.addHelpOption(helpOption);
  for (const option of [
    ...options,
    ...(detach ? [detachOption] : []),
    ...(dryRun ? [dryRunOption] : []),
    ...(trial ? trialOptions : []),
    ...(policy === true ? [skipTestsOption()] : []),
    ...(policy ? [waitOption, waitForOption] : []),
    destructive ? yesOption : asksIfUnsure ? sureOption : idleYesOption,
    ...globalOptions,
  ])
    command.addOption(option);
  addExamples(command, spec.examples);
  command.addHelpText('after', `\n${heading} ringfence help options`);
  return command;
}

const sentence = (summary: string): string => `${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`;

const isText = (value: unknown): value is string => typeof value === 'string';

/** An option that may be given several times. (Commander's own way would also swallow the arguments that follow.) */
export const repeated = (flags: string, help: string): Option =>
  new Option(flags, `${help}; repeatable`).argParser((text: string, before: readonly string[] | undefined) => [
    ...(before ?? []),
    text,
  ]);

export const onOption = (help: string): Option => repeated('--on <devices>', help);
const trialOptions: readonly Option[] = [
  new Option(
    '--confirm-within <duration>',
    'try the change: it is in force at once, and the server and every device take it back after this time (2m, 1h) unless you keep it',
  ),
  onOption('with --confirm-within: try it on these devices only, such as label:canary or label:edge+prod'),
];

/** A word that only has commands below it. */
export const addNoun = (parent: Command, name: string, summary: string): Command =>
  parent.command(name).summary(summary).description(sentence(summary));

const examples = new WeakMap<Command, readonly string[]>();

/** The examples that the command's help shows. */
export const examplesOf = (command: Command): readonly string[] => examples.get(command) ?? [];

export function addExamples(command: Command, lines: readonly string[]): void {
  examples.set(command, lines);
  const shown = lines.map((line) => `  $ ${line}\n`).join('');
  command.addHelpText('after', `\n${lines.length === 1 ? 'Example' : 'Examples'}:\n${shown}`.trimEnd());
}
