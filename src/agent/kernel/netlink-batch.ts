/** Owns the short way of a small batch: over netlink, where all of it can be said so, whatever else the namespace holds. */
import { hookPriority, type Command, type Hook, type Rule } from '../../nft/ast.ts';
import { ChannelError, type ChannelErrorCode, type NetlinkChannel, type Request } from '../netlink/channel.ts';
import { attribute, be32, flag, nested, text } from '../netlink/message.ts';
import { filterRequest, transactFilter } from '../netlink/nf-tables.ts';
import { elementRequests, type ElementChange } from '../netlink/set-elements.ts';
import { NftError } from './nft.ts';
import { ruleExpressions } from './rule-messages.ts';

const messageType = { addTable: 0, addChain: 3, addRule: 6, deleteRules: 8, addObject: 18 } as const;
const tableAttribute = { flags: 2 } as const;
const chainAttribute = { name: 3, hook: 4, policy: 5, type: 7 } as const;
const hookNumber: { readonly [H in Hook]: number } = { input: 1, forward: 2, output: 3, postrouting: 4 };
const acceptVerdict = 1;
const ruleAttribute = { chain: 2, expressions: 4 } as const;
const objectAttribute = { name: 2, type: 3, data: 4 } as const;
const counterType = 1;

/** Rules are frozen, and those of base chains stay from one policy to the next: what asks for them is made once. */
const made = new WeakMap<
  Rule,
  { readonly chain: string; readonly table: string | undefined; readonly request: Request }
>();

function ruleRequest(
  tableName: Uint8Array,
  { rule, chain, table }: Extract<Command, { kind: 'addRule' }>,
): Request | undefined {
  const before = made.get(rule);
  if (before?.chain === chain && before.table === table) return before.request;
  const expressions = ruleExpressions(rule);
  if (expressions === undefined) return undefined;
  const [where, list] = [attribute(ruleAttribute.chain, text(chain)), nested(ruleAttribute.expressions, expressions)];
  const request = filterRequest(messageType.addRule, flag.create | flag.append, tableName, where, list);
  made.set(rule, { chain, table, request });
  return request;
}

/** What asks for the command; nothing where it has no form here. */
function requestOf(command: Exclude<Command, ElementCommand>): Request | undefined {
  // Of every kind of request, the first attribute is the table's name.
  const table = attribute(1, text(command.table ?? 'service'));
  switch (command.kind) {
    case 'addTable':
      // No flags: one that is there loses those that others gave it, such as `dormant`.
      return filterRequest(messageType.addTable, flag.create, table, attribute(tableAttribute.flags, be32(0)));
    case 'addCounter': {
      const type = attribute(objectAttribute.type, be32(counterType));
      const data = nested(objectAttribute.data);
      const object = attribute(objectAttribute.name, text(command.name));
      return filterRequest(messageType.addObject, flag.create, table, object, type, data);
    }
    case 'addChain':
      return filterRequest(
        messageType.addChain,
        flag.create,
        table,
        attribute(chainAttribute.name, text(command.name)),
      );
    case 'addBaseChain': {
      const hook = nested(
        chainAttribute.hook,
        attribute(1, be32(hookNumber[command.hook])),
        attribute(2, be32(hookPriority[command.hook])),
      );
      const policy = attribute(chainAttribute.policy, be32(acceptVerdict));
      const type = attribute(chainAttribute.type, text('filter'));
      const chain = attribute(chainAttribute.name, text(command.name));
      return filterRequest(messageType.addChain, flag.create, table, chain, hook, policy, type);
    }
    case 'flushChain':
      return filterRequest(messageType.deleteRules, 0, table, attribute(ruleAttribute.chain, text(command.name)));
    case 'addRule':
      return ruleRequest(table, command);
    case 'addMap':
    case 'deleteChain':
    case 'deleteObject':
    case 'deleteTable':
      return undefined;
    default:
      return command satisfies never;
  }
}

type ElementCommand = Extract<Command, { kind: 'addElements' | 'deleteElements' }>;
const isAboutElements = (command: Command): command is ElementCommand =>
  command.kind === 'addElements' || command.kind === 'deleteElements';

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

/** More rules than these are worth an `nft`; a message to the kernel has room for so many. */
const mostRules = 64;

function requestsFor(commands: readonly Command[]): readonly Request[] | undefined {
  const requests: Request[] = [];
  let rules = 0;
  for (const command of commands) {
    if (isAboutElements(command)) {
      for (const change of elementChanges(command)) requests.push(...elementRequests(change));
      continue;
    }
    if (command.kind === 'addRule' && ++rules > mostRules) return undefined;
    const request = requestOf(command);
    if (request === undefined) return undefined;
    requests.push(request);
  }
  return requests;
}

/** Whether the batch leaves the same when it is run twice: what adds finds what is there, except a rule, which would stand there twice. */
function isRepeatable(commands: readonly Command[]): boolean {
  const flushed = new Set(
    commands.flatMap((command) => (command.kind === 'flushChain' ? `${command.table} ${command.name}` : [])),
  );
  return commands.every((command) => command.kind !== 'addRule' || flushed.has(`${command.table} ${command.chain}`));
}

/** After these the kernel may have made the changes all the same. */
const unclear: ReadonlySet<ChannelErrorCode> = new Set(['interrupted', 'timed_out']);

/**
 * Makes the changes over netlink; false where `nft` has to be asked, and then nothing has changed, or all of a batch that may be
 * repeated. Fails where it is not clear whether a batch was run that may not.
 */
export async function changeOverNetlink(
  channel: NetlinkChannel | undefined,
  commands: readonly Command[],
): Promise<boolean> {
  // An nft that runs is sooner done than a helper that has yet to start; with members it grows with their number.
  if (channel === undefined || !(channel.running || commands.every(isAboutElements))) return false;
  const requests = requestsFor(commands);
  if (requests === undefined) return false;
  try {
    await transactFilter(channel, requests);
    return true;
  } catch (error) {
    if (!(error instanceof ChannelError)) throw error;
    if (!unclear.has(error.code) || isRepeatable(commands)) return false;
    throw new NftError('interrupted', error.message, { cause: error });
  }
}
