/** Owns which ports the rules of an organization cannot tell apart: tests of such ports have the same outcome. */
import { isAnyPort } from '../../policy/match.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
import type { Effort } from './effort.ts';
import { testProtocols, type PolicyTest } from '../../policy/policy-test/policy-test.ts';

export class PortClasses {
  /** Ports at which some rule begins, or that follow the last one of a rule: ascending. */
  readonly #borders: Uint32Array;

  constructor(groups: Iterable<PolicyGroup>, effort: Effort) {
    const isBorder = new Uint8Array(65_537);
    for (const { inbound, outbound } of groups) {
      for (const rules of [inbound, outbound]) {
        for (const rule of rules) if (!isAnyPort(rule)) isBorder[rule.from_port] = isBorder[rule.to_port + 1] = 1;
        effort.take(rules.length);
      }
    }
    this.#borders = Uint32Array.from([...isBorder.keys()].filter((port) => isBorder[port] === 1));
  }

  /** A number for the protocol and all ports of the same class. */
  of({ protocol, port = 0 }: Pick<PolicyTest, 'protocol' | 'port'>): number {
    let [low, high] = [0, this.#borders.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#borders[middle] as number) <= port) low = middle + 1;
      else high = middle;
    }
    return testProtocols.indexOf(protocol) * 65_537 + low;
  }
}
