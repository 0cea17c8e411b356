/** Owns the list of client commands: everything that an operator types, besides running a server or an agent. */
import type { Command } from 'commander';
import { addAccountCommands } from './account/command.ts';
import { addDescriptionCommands } from './completion/command.ts';
import { addDeviceCommands } from './device/command.ts';
import { addGroupCommands } from './group/command.ts';
import { addOrganizationCommands } from './organization/command.ts';
import { addPolicyCommands } from './policy/command.ts';
import type { Family } from './command-line/family.ts';

export const clientFamilies: readonly Family[] = [
  { words: ['login', 'logout', 'whoami', 'profile', 'user', 'token'], add: addAccountCommands },
  { words: ['org', 'member', 'key', 'audit'], add: addOrganizationCommands },
  { words: ['device'], add: addDeviceCommands },
  { words: ['group'], add: addGroupCommands },
  { words: ['apply', 'export', 'watch', 'nft', 'explain'], add: addPolicyCommands },
  // These speak of all commands, so they want all of them.
  { words: [], add: addDescriptionCommands },
];

export function addClientCommands(program: Command): void {
  for (const { add } of clientFamilies) add(program);
}
