/** Owns the port to the kernel's tracked connections: how to list them and how to end them. */
import type { Direction } from '../../policy/rule.ts';
import type { Flow } from './flows.ts';

/** Whom connections are with, and who began them: inbound, the far end did. */
export interface FarEnd {
  readonly address: string;
  readonly direction: Direction;
}

/** Connections of a device: listed and forgotten. */
export interface FlowTable {
  /**
   * Shows every tracked connection, part by part, as they are listed; with `remotes`, at least those that have one of these far ends. Connections that are
   * ended meanwhile do no harm; one may be shown twice.
   */
  list(remotes: readonly FarEnd[] | undefined, visit: (part: readonly Flow[]) => void): Promise<void>;
  /** Shows the TCP connections of local sockets, tracked or not. The far end began one where a socket listens at its local port. */
  listSockets(visit: (part: readonly Flow[]) => void): Promise<void>;
  /** Makes the kernel forget connections that this table has shown; one that has ended meanwhile, or was never tracked, is none the worse. */
  forget(flows: readonly Flow[]): Promise<void>;
}
