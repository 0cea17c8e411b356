/** Owns the list of client commands: everything that an operator types, besides running a server or an agent. */
import type { Command } from 'commander';
import { addAccountCommands } from './commands/account.ts';
import { addDescriptionCommands } from './commands/description.ts';
import { addDeviceCommands } from './commands/device.ts';
import { addGroupCommands } from './commands/group.ts';
import { addOrganizationCommands } from './commands/organization.ts';
import { addPolicyCommands } from './commands/policy.ts';
import type { Family } from './family.ts';

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
