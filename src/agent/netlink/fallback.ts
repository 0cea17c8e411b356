/** Owns the choice between the netlink channel and the programs that replace it where it does not work. */
import { ChannelError } from './channel.ts';

export async function withFallback<T>(work: () => Promise<T>, otherwise: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ChannelError) || error.code === 'closed') throw error;
    return otherwise();
  }
}
