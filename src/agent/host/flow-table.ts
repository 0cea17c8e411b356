/** Owns the port to the kernel's tracked connections: which there are, and their end. */
import type { Direction } from '../../policy/rule.ts';
import type { Flow, LocalFlow } from './flows.ts';

/** Whom connections are with, and who began them: inbound, the far end did. */
export interface FarEnd {
  readonly address: string;
  readonly direction: Direction;
}

/** Connections of a device: listed, aborted, forgotten. */
export interface FlowTable {
  /** Every tracked connection; with `remotes`, at least those that have one of these far ends. */
  list(remotes?: readonly FarEnd[]): Promise<readonly Flow[]>;
  /**
   * Aborts the local sockets of TCP connections over the interface of this index, those bound to it too. Answers with what went
   * wrong, for a person.
   */
  abort(flows: readonly LocalFlow[], interfaceIndex: number): Promise<string | undefined>;
  /**
   * Makes the kernel forget connections that this table has listed; one that has ended meanwhile is none the worse. `kept`
   * are those that it listed and that stay.
   */
  forget(flows: readonly Flow[], kept: readonly Flow[]): Promise<void>;
}
