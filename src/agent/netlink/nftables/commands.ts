/**
 * Owns the encoding of a batch's commands as netlink messages: everything an update needs except the removal of chains
 * and objects.
 */
import { hookPriority, type Command, type Hook } from '../../../nft/ast.ts';
import type { EndedCommand } from '../../../nft/ended-flows.ts';
import { flag } from '../message.ts';
import { writeMembers } from './elements.ts';
import { writeEnded } from './ended-flows.ts';
import { writeRule } from './rules.ts';
import { writePeerMap } from './sets.ts';
import { counterObject, FilterBatch } from './transaction.ts';

const tableAttribute = { flags: 2 } as const;
const chainAttribute = { name: 3, hook: 4, policy: 5, type: 7 } as const;
const hookAttribute = { number: 1, priority: 2 } as const;
const hookNumber: { readonly [H in Hook]: number } = { input: 1, forward: 2, output: 3, postrouting: 4 };
const acceptVerdict = 1;
const rulesAttribute = { chain: 2 } as const;
const objectAttribute = { name: 2, type: 3, data: 4 } as const;

/** Asks for the command; false where it has no form here, and then the batch is no good. */
function write(batch: FilterBatch, command: Command | EndedCommand): boolean {
  const table = 'table' in command ? (command.table ?? 'service') : 'service';
  switch (command.kind) {
    case 'addTable':
      // No flags: one that is there loses those that others gave it, such as `dormant`.
      batch.ask('addTable', flag.create, table);
      batch.be32(tableAttribute.flags, 0);
      batch.end();
      return true;
    case 'deleteTable':
      batch.ask('deleteTable', 0, table);
      batch.end();
      return true;
    case 'addCounter':
      batch.ask('addObject', flag.create, table);
      batch.name(objectAttribute.name, command.name);
      batch.be32(objectAttribute.type, counterObject);
      batch.close(batch.open(objectAttribute.data));
      batch.end();
      return true;
    case 'addChain':
      batch.ask('addChain', flag.create, table);
      batch.name(chainAttribute.name, command.name);
      batch.end();
      return true;
    case 'addBaseChain': {
      batch.ask('addChain', flag.create, table);
      batch.name(chainAttribute.name, command.name);
      const hook = batch.open(chainAttribute.hook);
      batch.be32(hookAttribute.number, hookNumber[command.hook]);
      batch.be32(hookAttribute.priority, hookPriority[command.hook]);
      batch.close(hook);
      batch.be32(chainAttribute.policy, acceptVerdict);
      batch.name(chainAttribute.type, 'filter');
      batch.end();
      return true;
    }
    case 'flushChain':
      batch.ask('deleteRules', 0, table);
      batch.name(rulesAttribute.chain, command.name);
      batch.end();
      return true;
    case 'addRule':
      return writeRule(batch, table, command.chain, command.rule);
    case 'addMap':
      writePeerMap(batch, table, command);
      return true;
    case 'addElements':
    case 'deleteElements':
      writeMembers(batch, command);
      return true;
    case 'addEnded':
    case 'deleteEnded':
      writeEnded(batch, command);
      return true;
    case 'addSet':
    case 'flushSet':
    case 'startSecondGeneration':
    case 'deleteChain':
    case 'deleteObject':
    case 'makeEndedTable':
    case 'removeEndedTable':
      return false;
    default:
      return command satisfies never;
  }
}

/** The whole batch as messages; nothing where a part of it has no such form. */
export function batchOf(commands: readonly (Command | EndedCommand)[]): FilterBatch | undefined {
  const batch = new FilterBatch();
  return commands.every((command) => write(batch, command)) ? batch : undefined;
}
