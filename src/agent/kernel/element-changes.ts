/** Owns the short way of a batch that only changes members of maps: over netlink, whatever else the namespace holds. */
import type { Command } from '../../nft/ast.ts';
import { ChannelError, type NetlinkChannel } from '../netlink/channel.ts';
import { changeElements, type ElementChange } from '../netlink/set-elements.ts';

/** The batch as changes of elements; nothing where it changes anything else. */
export function elementChanges(commands: readonly Command[]): readonly ElementChange[] | undefined {
  const changes: ElementChange[] = [];
  for (const command of commands) {
    const table = command.table ?? 'service';
    if (command.kind === 'deleteElements') {
      const { map: set, family, addresses } = command;
      changes.push({ verb: 'delete', table, set, family, addresses });
    } else if (command.kind === 'addElements') {
      const { map: set, family, elements } = command;
      for (const [counter, addresses] of byCounter(elements)) {
        changes.push({ verb: 'add', table, set, family, addresses, counter });
      }
    } else return undefined;
  }
  return changes;
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

/**
 * Makes the changes over netlink; false where `nft` has to be asked, and then nothing may have changed, or all. `nft` finds the same
 * either way: a member that is there already may be added again, and a missing one that is to go makes it refuse.
 */
export async function changeOverNetlink(
  channel: NetlinkChannel | undefined,
  commands: readonly Command[],
): Promise<boolean> {
  const changes = channel === undefined ? undefined : elementChanges(commands);
  if (channel === undefined || changes === undefined) return false;
  try {
    await changeElements(channel, changes);
    return true;
  } catch (error) {
    if (error instanceof ChannelError) return false;
    throw error;
  }
}
