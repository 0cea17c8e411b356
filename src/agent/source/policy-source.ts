/** Owns the port to the source of this device's policy. */
import type { EffectivePolicy } from '../../policy/effective.ts';

/** What is known about the policy. While something is missing, rules stay as they are. */
export type Knowledge =
  | {
      readonly kind: 'known';
      /** With the addresses of all devices that its rules name. */
      readonly policy: EffectivePolicy;
      /** Newest revision of the organization that it reflects. */
      readonly revision: number;
      /** Revision of the device's own record, where that is known. */
      readonly own?: number;
    }
  | {
      readonly kind: 'unknown';
      readonly why: string;
      /** Newest revision of the organization that this is true of, where one is. */
      readonly revision?: number;
      /** The server's records hold what this agent does not know, or more than it takes. */
      readonly code?: 'not_understood' | 'too_large';
      /** Nothing is wrong: it has only not come yet. */
      readonly early?: true;
    };

/** How the connection to the source is doing, for an operator. */
export interface Connection {
  readonly phase: string;
  readonly since: number;
  /** Until when it was live, where it is not now and has been. */
  readonly lastLiveAt?: number;
  readonly failures: number;
  /** `kind` is the same for the same trouble, however it is worded. */
  readonly lastError?: { readonly message: string; readonly at: number; readonly kind?: string };
}

/**
 * Knows the policy of one device.
 *
 * It promises: what `read` gives as known was the policy of the device at one moment, whole; it never goes back in time
 * while it runs, except to a server that was itself set back; after every change it calls `onChange`, sooner or later, and
 * once for many changes; while the server is away it goes on giving what it knew.
 */
export interface PolicySource {
  read(): Knowledge;
  readonly connection: Connection;
  /** Something may have changed. The answer ends the subscription. */
  onChange(handler: () => void): () => void;
  /** Follows the server until the signal is aborted. */
  run(options: { readonly signal: AbortSignal }): Promise<void>;
}
