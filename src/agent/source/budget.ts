/** Owns how much the agent takes from a server: beyond it, the last good policy stays in force and the status is `too_large`. */
import type { SecurityGroup } from '../../api/group.ts';
import { RingfenceError } from '../../client/error.ts';

/** Why a policy is not taken. */
export class TooLarge extends Error {
  readonly code = 'too_large';
}

/** The same, found while a record is taken in: the stream ends, and the copy is emptied. */
export const recordTooLarge = (message: string): RingfenceError =>
  new RingfenceError({ code: 'document_too_large', message });

export interface Budget {
  /** Bytes of memory for the copies of records, roughly. */
  readonly records: number;
  /** Address ranges and rules of this device's groups and guardrails, with those that a trial may bring back. */
  readonly ranges: number;
  readonly rules: number;
  /** Addresses of the devices that rules name, once for each name. */
  readonly addresses: number;
}

/** About what fits in so many megabytes. A server allows half as many ranges by default. */
export const budgetOf = (megabytes: number): Budget => ({
  records: megabytes * 512 * 1024,
  ranges: megabytes * 400,
  rules: megabytes * 1_000,
  addresses: megabytes * 2_000,
});

/** Megabytes unless an option says otherwise. */
export const defaultMegabytes = 256;

/** What a group has in its rules, those before a trial included. */
export function countsOf({ inbound_rules = [], outbound_rules = [], trial }: SecurityGroup): {
  readonly rules: number;
  readonly ranges: number;
} {
  let [rules, ranges] = [0, 0];
  const { before } = trial ?? {};
  for (const some of [inbound_rules, outbound_rules, before?.inbound_rules ?? [], before?.outbound_rules ?? []]) {
    rules += some.length;
    for (const { ip_ranges = [] } of some) ranges += ip_ranges.length;
  }
  return { rules, ranges };
}

/** Adds up the groups of one policy, each once. Throws `TooLarge` beyond the budget, before the rules are read. */
export class PolicySize {
  readonly #budget: Budget;
  readonly #counted = new Set<SecurityGroup>();
  #rules = 0;
  #ranges = 0;

  constructor(budget: Budget) {
    this.#budget = budget;
  }

  add(group: SecurityGroup | undefined): void {
    if (group === undefined || this.#counted.has(group)) return;
    this.#counted.add(group);
    const { rules, ranges } = countsOf(group);
    this.#rules += rules;
    this.#ranges += ranges;
    const most = this.#budget;
    if (this.#ranges > most.ranges)
      throw new TooLarge(`the groups of this device have more than ${most.ranges} address ranges`);
    if (this.#rules > most.rules) throw new TooLarge(`the groups of this device have more than ${most.rules} rules`);
  }
}
