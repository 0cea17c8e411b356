/** Owns reachability between clusters: devices by label, and how many of their pairs may connect. */
import type { Device } from '../../api/device.ts';
import { decide } from '../../policy/decide.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import type { Direction } from '../../policy/rule.ts';
import { transportOf, type Endpoint, type Probe } from './reachability.ts';

export interface Cluster {
  readonly key: string;
  readonly name: string;
  /** Places in the list of devices. A device may be in several clusters. */
  readonly members: readonly number[];
}

/** The largest first; devices without a label last. */
export function labelClusters(devices: readonly Device[]): readonly Cluster[] {
  const found = new Map<string, number[]>();
  for (const [index, { labels = [] }] of devices.entries()) {
    for (const label of labels.length === 0 ? [''] : labels) {
      const members = found.get(label) ?? [];
      members.push(index);
      found.set(label, members);
    }
  }
  return [...found]
    .map(([key, members]) => ({ key, name: key || 'no label', members }))
    .toSorted((a, b) => Number(a.key === '') - Number(b.key === '') || b.members.length - a.members.length);
}

/** Pairs of different devices: those that may connect, those whose answer is unknown, and all. */
export interface PairCount {
  readonly yes: number;
  readonly unknown: number;
  readonly total: number;
}

/**
 * Who may reach whom on one port, for thousands: each distinct policy is asked once about each address, and a pair of devices is then two
 * looks into that table.
 */
export class ReachTable {
  readonly #endpoints: readonly Endpoint[];
  readonly #policyOf: readonly number[];
  /** By policy, then by device: 1 where the policy lets it pass. */
  readonly #outbound: readonly Uint8Array[];
  readonly #inbound: readonly Uint8Array[];

  constructor(endpoints: readonly Endpoint[], probe: Probe) {
    this.#endpoints = endpoints;
    const policies = new Map<EffectivePolicy, number>();
    this.#policyOf = endpoints.map(({ policy }) => {
      if ('missing' in policy) return -1;
      const index = policies.get(policy) ?? policies.size;
      policies.set(policy, index);
      return index;
    });
    const verdicts = (direction: Direction): readonly Uint8Array[] =>
      [...policies.keys()].map((policy) =>
        Uint8Array.from(endpoints, ({ address }) =>
          address === undefined
            ? 0
            : Number(
                decide(policy, {
                  direction,
                  family: address.family,
                  remote: address.value,
                  transport: transportOf(probe, address.family),
                }).verdict === 'accept',
              ),
        ),
      );
    this.#outbound = verdicts('outbound');
    this.#inbound = verdicts('inbound');
  }

  count(from: Cluster, to: Cluster): PairCount {
    let [yes, unknown, total] = [0, 0, 0];
    for (const a of from.members) {
      const out = this.#outbound[this.#policyOf[a] ?? -1];
      const source = this.#endpoints[a]?.address?.family;
      for (const b of to.members) {
        if (a === b) continue;
        total += 1;
        const into = this.#inbound[this.#policyOf[b] ?? -1];
        const target = this.#endpoints[b]?.address?.family;
        if (out === undefined || into === undefined || source === undefined || source !== target) unknown += 1;
        else if (out[b] === 1 && into[a] === 1) yes += 1;
      }
    }
    return { yes, unknown, total };
  }
}
