/** Owns the conversion of commander's commands into data. */
import type { Command, Option } from 'commander';
import { examplesOf } from './client-command.ts';
import type { CommandNode, OptionNode } from './tree.ts';

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
    aliases: command.aliases(),
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
    examples: examplesOf(command),
  };
}
