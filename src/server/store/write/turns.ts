/** Owns the turns of writes that take long in their transactions, with policy tests or walks over an organization: they have only a part of the connections, so that there is always one for everybody else. */
import type { OrganizationId, UserId } from '../../../policy/ids.ts';

/** Thrown in a transaction that takes longer than one without a turn may. It is taken back, and runs again with a turn. */
export class NeedsTurn extends Error {
  constructor() {
    super('this write takes a turn');
    this.name = 'NeedsTurn';
  }
}

export interface Turns {
  /** Waits outside of a transaction; gives what ends the turn. Refuses with `busy` where there is none in time. */
  take(user: UserId, org: OrganizationId): Promise<() => void>;
}
