/** Owns the sending of a batch over netlink: whether the batch qualifies, and what happens when the channel fails. */
import type { Command } from '../../nft/ast.ts';
import { isEndedCommand, type EndedCommand } from '../../nft/ended-flows.ts';
import { ChannelError, type ChannelErrorCode, type NetlinkChannel } from '../netlink/channel.ts';
import { batchOf } from '../netlink/nftables/commands.ts';
import { NftError } from './nft.ts';

const isAboutElements = ({ kind }: Command | EndedCommand): boolean =>
  kind === 'addElements' || kind === 'deleteElements' || kind === 'addEnded' || kind === 'deleteEnded';

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
