/** Owns the interface of leases: work that one process of all servers does at a time. */

export type LeasedWork = 'audit_log' | 'retention';

export interface Leases {
  /** Whether this holder does the work, from now on for so long; no other holder is told so meanwhile. A holder may renew it at any time. */
  claim(work: LeasedWork, holder: string, forMs: number): Promise<boolean>;
  /** Another holder may begin at once. */
  release(holder: string): Promise<void>;
}
