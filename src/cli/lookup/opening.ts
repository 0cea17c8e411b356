/**
 * Owns the confirmation before a write that takes the last group from devices, so that the default group applies to
 * them.
 */
import { RingfenceError } from '../../client/error.ts';
import { printable } from '../../policy/names/printable.ts';
import type { Session } from '../session/session.ts';
import { CliError } from '../terminal/exit.ts';
import { allDevices, deviceName } from './device.ts';

/** How a write goes on in spite of the devices that it opens. */
interface DetachQuery {
  readonly detach?: true;
}

const wouldOpen = (error: unknown): error is RingfenceError =>
  error instanceof RingfenceError && error.code === 'would_open';

const reason = 'these devices would have no group left, and the default group would apply to them';

/**
 * Writes. Where that would open devices, shows them and asks, and writes with `detach` after a yes. In a script, and with `--yes`, which answers a
 * question that came before, `--detach` must be given.
 */
export async function writeOrAsk<T>(session: Session, write: (asked: DetachQuery) => Promise<T>): Promise<T> {
  const { terminal, signal, values } = session;
  if (values.detach === true) return write({ detach: true });
  try {
    return await write({});
  } catch (error) {
    if (!wouldOpen(error)) throw error;
    const devices = await openedNames(session, error);
    if (!terminal.isInteractive || values.yes === true) {
      throw new CliError('conflict', `nothing was written: ${reason}; to continue, use --detach`, devices);
    }
    terminal.note(`${reason[0]?.toUpperCase()}${reason.slice(1)}:`);
    for (const name of devices) terminal.note(`  ${printable(name)}`);
    if (!(await terminal.confirm('Continue?', { yes: false, signal })))
      throw new CliError('conflict', 'nothing was changed');
    return write({ detach: true });
  }
}

async function openedNames(session: Session, { devices, moreDevices }: RingfenceError): Promise<readonly string[]> {
  const known = new Map<string, string>((await allDevices(session)).map((device) => [device.id, deviceName(device)]));
  const names = devices.map((id) => `${known.get(id) ?? id} (${id})`);
  return moreDevices > 0 ? [...names, `and ${moreDevices} more`] : names;
}
