/** Owns the commands as data: what completion and the reference are made from. */
import type { Command, Option } from 'commander';

export interface CommandNode {
  /** Without the program's own name: `group allow`; empty for the program itself. */
  readonly path: string;
  readonly name: string;
  readonly summary: string;
  readonly description: string;
  /** As help shows it after the name: `[options] <group> <rule...>`. */
  readonly usage: string;
  readonly options: readonly OptionNode[];
  readonly arguments: readonly ArgumentNode[];
  readonly children: readonly CommandNode[];
  readonly command: Command;
}

export interface ArgumentNode {
  readonly name: string;
  /** Takes every word that is left. */
  readonly isMany: boolean;
  readonly choices: readonly string[];
}

export interface OptionNode {
  readonly flags: string;
  readonly long: string;
  readonly short: string | undefined;
  readonly help: string;
  readonly takesValue: boolean;
  readonly choices: readonly string[];
  readonly env: string | undefined;
  readonly fallback: string | undefined;
  /** The heading under which help shows it; none: its own. */
  readonly heading: string | undefined;
}

const readOption = (option: Option): OptionNode => ({
  flags: option.flags,
  long: option.long ?? '',
  short: option.short,
  help: option.description,
  takesValue: option.required || option.optional,
  choices: option.argChoices ?? [],
  env: option.envVar,
  fallback:
    option.defaultValue === undefined ? undefined : (option.defaultValueDescription ?? String(option.defaultValue)),
  heading: option.helpGroupHeading,
});

export function readTree(command: Command, parent = ''): CommandNode {
  const isRoot = command.parent === null;
  const path = isRoot ? '' : `${parent} ${command.name()}`.trim();
  const help = command.createHelp();
  return {
    path,
    name: command.name(),
    summary: command.summary() || command.description(),
    description: command.description(),
    usage: command.usage(),
    options: help.visibleOptions(command).map(readOption),
    arguments: command.registeredArguments.map((argument) => ({
      name: argument.name(),
      isMany: argument.variadic,
      choices: argument.argChoices ?? [],
    })),
    children: help
      .visibleCommands(command)
      .filter((child) => child.name() !== 'help')
      .map((child) => readTree(child, path)),
    command,
  };
}

/** The node and everything below it, parents first. */
export const flatten = (node: CommandNode): readonly CommandNode[] => [node, ...node.children.flatMap(flatten)];
