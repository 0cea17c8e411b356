/** Owns the short way of a small batch: over netlink, where all of it can be said so, whatever else the namespace holds. */
import { hookPriority, type Command, type Hook } from '../../nft/ast.ts';
import { isEndedCommand, type EndedCommand } from '../../nft/ended-flows.ts';
import { ChannelError, type ChannelErrorCode, type NetlinkChannel } from '../netlink/channel.ts';
import { flag } from '../netlink/message.ts';
import { FilterBatch } from '../netlink/nf-tables.ts';
import { writeElements, type ElementChange } from '../netlink/set-elements.ts';
import { writeEnded } from './ended-messages.ts';
import { NftError } from './nft.ts';
import { writeRule } from './rule-messages.ts';
import { writePeerMap } from './set-messages.ts';

const tableAttribute = { flags: 2 } as const;
const chainAttribute = { name: 3, hook: 4, policy: 5, type: 7 } as const;
const hookAttribute = { number: 1, priority: 2 } as const;
const hookNumber: { readonly [H in Hook]: number } = { input: 1, forward: 2, output: 3, postrouting: 4 };
const acceptVerdict = 1;
const rulesAttribute = { chain: 2 } as const;
const objectAttribute = { name: 2, type: 3, data: 4 } as const;
const counterType = 1;

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
      batch.be32(objectAttribute.type, counterType);
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
      for (const change of elementChanges(command)) writeElements(batch, change);
      return true;
    case 'addEnded':
    case 'deleteEnded':
      writeEnded(batch, command);
      return true;
    case 'deleteChain':
    case 'deleteObject':
    case 'makeEndedTable':
    case 'removeEndedTable':
      return false;
    default:
      return command satisfies never;
  }
}

type ElementCommand = Extract<Command, { kind: 'addElements' | 'deleteElements' }>;
const isAboutElements = ({ kind }: Command | EndedCommand): boolean =>
  kind === 'addElements' || kind === 'deleteElements' || kind === 'addEnded' || kind === 'deleteEnded';

function elementChanges(command: ElementCommand): readonly ElementChange[] {
  const { table = 'service', map: set, family } = command;
  if (command.kind === 'deleteElements') {
    return [{ verb: 'delete', table, set, family, addresses: command.addresses }];
  }
  return [...byCounter(command.elements)].map(([counter, addresses]) => ({
    verb: 'add',
    table,
    set,
    family,
    addresses,
    counter,
  }));
}

function byCounter(elements: readonly (readonly [bigint, string])[]): ReadonlyMap<string, readonly bigint[]> {
  const addresses = new Map<string, bigint[]>();
  for (const [address, counter] of elements) {
    const same = addresses.get(counter);
    if (same === undefined) addresses.set(counter, [address]);
    else same.push(address);
  }
  return addresses;
}

/** The whole batch as messages; nothing where a part of it has no such form. */
export function batchOf(commands: readonly (Command | EndedCommand)[]): FilterBatch | undefined {
  const batch = new FilterBatch();
  return commands.every((command) => write(batch, command)) ? batch : undefined;
}

/**
 * Whether the batch leaves the same when it is run twice: what adds finds what is there, except a rule, which would stand there twice unless the
 * batch itself empties its chain or takes its table away first.
 */
function isRepeatable(all: readonly (Command | EndedCommand)[]): boolean {
  const commands = all.filter((command) => !isEndedCommand(command));
  const emptied = new Set(
    commands.flatMap((command) => {
      const { table = 'service' } = command;
      if (command.kind === 'flushChain') return [`${table} ${command.name}`];
      return command.kind === 'deleteTable' ? [table] : [];
    }),
  );
  return commands.every(
    ({ table = 'service', ...command }) =>
      command.kind !== 'addRule' || emptied.has(table) || emptied.has(`${table} ${command.chain}`),
  );
}

/** After these the kernel may have made the changes all the same. */
const unclear: ReadonlySet<ChannelErrorCode> = new Set(['interrupted', 'timed_out']);

/** Milliseconds for an answer, and for each byte of a large batch: a hundred times what a quiet machine takes. */
const timeout = 10_000;
const timeoutPerByte = 0.005;

/**
 * Makes the changes over netlink; false where `nft` has to be asked, and then nothing has changed, or all of a batch that may be
 * repeated. Fails where it is not clear whether a batch was run that may not.
 */
export async function changeOverNetlink(
  channel: NetlinkChannel | undefined,
  commands: readonly (Command | EndedCommand)[],
): Promise<boolean> {
  // An nft that runs is sooner done than a helper that has yet to start; with members it grows with their number.
  if (channel === undefined || !(channel.running || commands.every(isAboutElements))) return false;
  const batch = batchOf(commands);
  if (batch === undefined) return false;
  try {
    await batch.run(channel, timeout + batch.size * timeoutPerByte);
    return true;
  } catch (error) {
    if (!(error instanceof ChannelError)) throw error;
    if (!unclear.has(error.code) || isRepeatable(commands)) return false;
    throw new NftError('interrupted', error.message, { cause: error });
  }
}
