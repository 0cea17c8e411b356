/** Owns the reading of installed chains: either all their rules are ours, or reading stops with the finding. */
import type { Rule, Verdict } from '../ast.ts';
import { wholeOf } from '../compile/parts.ts';
import { withVerdicts } from './recorder-verdicts.ts';
import type { Installed, InstalledMembers } from './listing.ts';

/** Something in our table that we did not put there, or something of ours that is gone. */
export interface Finding {
  readonly code:
    | 'table_flags'
    | 'foreign_object'
    | 'foreign_chain'
    | 'foreign_rule'
    | 'missing_chain'
    | 'wrong_attachment'
    | 'wrong_layout'
    | 'unused_chain';
  /** The chain or object concerned; empty for the table itself. */
  readonly name: string;
  readonly detail: string;
}

export class Unexpected extends Error {
  readonly finding: Finding;
  constructor(code: Finding['code'], name: string, detail: string) {
    super(detail);
    this.finding = { code, name, detail };
  }
}

export const unexpectedLayout = (name: string): Unexpected =>
  new Unexpected('wrong_layout', name, 'the rules do not have the expected layout');

/** Reads chains of one table, and remembers which. */
export class ChainReader {
  readonly #installed: Installed;
  readonly used: Set<string>;

  readonly #verdicts: ReadonlyMap<string, Verdict>;

  /** `verdicts` are what chains decide that record or answer a packet first. */
  constructor(installed: Installed, used: Set<string>, verdicts: ReadonlyMap<string, Verdict>) {
    this.#installed = installed;
    this.used = used;
    this.#verdicts = verdicts;
  }

  /** Who is in a map of ours. */
  members(name: string): InstalledMembers {
    const map = this.#installed.objects.find((each) => each.object === 'map' && each.name === name);
    if (map?.members === undefined) throw unexpectedLayout(name);
    return map.members;
  }

  /** The rules of a chain, long lists whole. */
  rules(name: string): readonly Rule[] {
    return this.#written(name).map((each) => {
      const whole = wholeOf(each, (part) => this.#written(part));
      if (whole === undefined) throw unexpectedLayout(name);
      return whole;
    });
  }

  #written(name: string): readonly Rule[] {
    const chain = this.#installed.chains.get(name);
    if (chain === undefined) throw new Unexpected('missing_chain', name, 'the chain does not exist');
    this.used.add(name);
    return chain.rules.map((each) => {
      if (each.kind === 'known') return this.#verdicts.size === 0 ? each.rule : withVerdicts(each.rule, this.#verdicts);
      throw new Unexpected('foreign_rule', name, `the chain contains a foreign rule: ${each.json}`);
    });
  }
}
