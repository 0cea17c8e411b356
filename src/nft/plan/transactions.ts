/**
 * Owns the size of transactions. The kernel goes through all of a transaction for each set of it that a rule takes, and while any program monitors the packet
 * filter, it keeps four kilobytes for each element of a set until the transaction ends.
 */
import type { Command } from '../ast.ts';

/** Elements that one command adds or deletes at most. */
const mostInCommand = 2_048;
/** Elements that one transaction has, about: 16 MB of the kernel's memory. */
const manyElements = 4_096;
/** A command counts like a range, which is two elements. */
const weightOfCommand = 2;

/** The list in pieces for one command each. */
export function* pieces<T>(all: readonly T[]): Iterable<readonly T[]> {
  for (let at = 0; at < all.length; at += mostInCommand) yield all.slice(at, at + mostInCommand);
}

function weightOf(command: Command): number {
  if (command.kind === 'addElements') return command.elements.length;
  if (command.kind === 'deleteElements') return command.addresses.length;
  if (command.kind !== 'addRule') return weightOfCommand;
  const { matches, action } = command.rule;
  const listed = matches.reduce((sum, match) => sum + (match.kind === 'address' ? match.ranges.length : 0), 0);
  return weightOfCommand * (1 + listed + ('entries' in action ? action.entries.length : 0));
}

/** The commands as transactions, in their order; those that stand together stay so. */
export function inTransactions(together: Iterable<readonly Command[]>): readonly (readonly Command[])[] {
  const batches: Command[][] = [];
  let batch: Command[] | undefined;
  let weight = 0;
  for (const commands of together) {
    const more = commands.reduce((sum, command) => sum + weightOf(command), 0);
    if (batch === undefined || weight + more > manyElements) {
      batches.push((batch = []));
      weight = 0;
    }
    for (const command of commands) batch.push(command);
    weight += more;
  }
  return batches;
}

/** Whether the commands are more than one transaction should hold. */
export const isLarge = (commands: readonly Command[]): boolean =>
  commands.reduce((sum, command) => sum + weightOf(command), 0) > manyElements;
