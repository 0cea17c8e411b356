/** Owns the list of client commands: everything that an operator types, besides running a server or an agent. */
import type { Command } from 'commander';
import { addAccountCommands } from './commands/account.ts';
import { addDescriptionCommands } from './commands/description.ts';
import { addDeviceCommands } from './commands/device.ts';
import { addGroupCommands } from './commands/group.ts';
import { addOrganizationCommands } from './commands/organization.ts';
import { addPolicyCommands } from './commands/policy.ts';

export function addClientCommands(program: Command): void {
  addAccountCommands(program);
  addOrganizationCommands(program);
  addDeviceCommands(program);
  addGroupCommands(program);
  addPolicyCommands(program);
  addDescriptionCommands(program);
}
