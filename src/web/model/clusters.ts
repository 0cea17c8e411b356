/** Owns reachability between clusters: devices by label or group, and how many of their pairs may connect. */
import type { Device } from '../../api/device.ts';
import { groupsOf } from '../../organization/of-records.ts';
import { decide } from '../../policy/decide.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import type { Direction } from '../../policy/rule.ts';
import type { Snapshot } from '../state/live.ts';
import { transportOf, type Endpoint, type Probe } from './reachability.ts';

export type ClusterBy = 'label' | 'group';

export interface Cluster {
  readonly key: string;
  readonly name: string;
  /** Places in the list of devices. A device may be in several clusters. */
  readonly members: readonly number[];
}

/** The largest first; what has nothing by which to stand elsewhere, last. */
export function clustersOf(
  by: ClusterBy,
  devices: readonly Device[],
  { groups }: Pick<Snapshot, 'groups'>,
): readonly Cluster[] {
  const found = new Map<string, { readonly name: string; readonly members: number[] }>();
  const add = (key: string, name: string, index: number): void => {
    const cluster = found.get(key) ?? { name, members: [] };
    cluster.members.push(index);
    found.set(key, cluster);
  };
  const bySet = new Map<string, readonly (readonly [string, string])[]>();
  for (const [index, device] of devices.entries()) {
    const { labels = [], security_groups: list = [], trial } = device;
    if (by === 'label') {
      for (const label of labels) add(label, label, index);
      if (labels.length === 0) add('', 'no label', index);
      continue;
    }
    // Devices with the same list and labels have the same groups.
    const set = `${list.join()} ${labels.join()} ${trial === undefined ? '' : device.id}`;
    const names =
      bySet.get(set) ??
      groupsOf(device, groups).groups.flatMap(({ id, group }) =>
        group === undefined ? [] : [[id, group.name] as const],
      );
    bySet.set(set, names);
    for (const [id, name] of names) add(id, name, index);
  }
  return [...found]
    .map(([key, cluster]) => ({ key, ...cluster }))
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
