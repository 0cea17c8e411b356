/** Owns the list of client commands: everything that an operator types, besides running a server or an agent. */
import type { Command } from 'commander';
import { addAccountCommands } from './account/command.ts';
import { addPlainNoun } from './command-line/client-command.ts';
import type { Family } from './command-line/family.ts';
import { addCompletionCommands } from './completion/command.ts';
import { addDeviceCommands } from './device/command.ts';
import { addDoctorCommand } from './doctor/command.ts';
import { addEvidenceCommands } from './evidence/command.ts';
import { addGroupCommands } from './group/command.ts';
import { addDeviceHistoryCommands, addGroupHistoryCommands, addLogCommand } from './history/command.ts';
import { addLabelCommands, addUndoCommand } from './label/command.ts';
import { addPolicyCommands } from './policy/command.ts';
import { addTestCommand } from './policy-test/command.ts';
import { addReferenceCommand } from './reference/command.ts';
import { addFlowsCommands } from './flows/command.ts';
import { addStatusCommand } from './status/command.ts';
import { addTrialCommands } from './trial/command.ts';
import { addWatchCommand } from './watch/command.ts';

/** Commands of two rooms under one word. */
function both(first: Family['add'], second: Family['add']): Family['add'] {
  return async (program) => {
    await first(program);
    await second(program);
  };
}

export const clientFamilies: readonly Family[] = [
  { words: ['login', 'logout', 'whoami', 'profile'], add: addAccountCommands },
  { words: ['user'], add: async (program) => addPlainNoun(program, (await import('./plain/user.ts')).userNoun) },
  { words: ['token'], add: async (program) => addPlainNoun(program, (await import('./plain/token.ts')).tokenNoun) },
  {
    words: ['org'],
    add: async (program) => addPlainNoun(program, (await import('./plain/organization.ts')).organizationNoun),
  },
  { words: ['member'], add: async (program) => addPlainNoun(program, (await import('./plain/member.ts')).memberNoun) },
  { words: ['key'], add: async (program) => addPlainNoun(program, (await import('./plain/key.ts')).keyNoun) },
  { words: ['log', 'audit'], add: addLogCommand },
  { words: ['device'], add: both(addDeviceCommands, addDeviceHistoryCommands) },
  { words: ['group'], add: both(addGroupCommands, addGroupHistoryCommands) },
  { words: ['policy', 'apply', 'diff', 'export', 'nft', 'explain'], add: addPolicyCommands },
  { words: ['label'], add: addLabelCommands },
  { words: ['undo'], add: addUndoCommand },
  { words: ['trial'], add: addTrialCommands },
  {
    words: ['webhook'],
    add: async (program) => addPlainNoun(program, (await import('./plain/webhook.ts')).webhookNoun),
  },
  { words: ['test'], add: addTestCommand },
  { words: ['status'], add: addStatusCommand },
  { words: ['flows', 'propose'], add: addFlowsCommands },
  { words: ['evidence'], add: addEvidenceCommands },
  { words: ['watch'], add: addWatchCommand },
  { words: ['doctor'], add: addDoctorCommand },
  // These describe all commands, so they need all of them.
  { words: [], tells: 'complete', add: addCompletionCommands },
  { words: [], add: addReferenceCommand },
];

export async function addClientCommands(program: Command): Promise<void> {
  for (const { add } of clientFamilies) await add(program);
}
