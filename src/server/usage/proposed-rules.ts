/**
 * Owns the rules that would admit observed traffic: one for each direction, protocol and port, whose far ends are labels where devices have one. No effects.
 */
import { printAddress } from '../../policy/address.ts';
import { hasPort } from '../../policy/flow/protocol.ts';
import type { DeviceId } from '../../policy/ids.ts';
import type { Direction, Family, Peer, StoredProtocol, StoredRule } from '../../policy/rule.ts';
import type { SnapshotFleet } from '../../policy/snapshot/snapshot-fleet.ts';
import type { SnapshotDevice } from '../../policy/snapshot/snapshot.ts';
import type { StoredFlow } from '../store/contract/flows/flows.ts';

/** Rules of a direction. With the far ends of each, a group stays within its limits of peers and ranges. */
const mostRules = 100;
/** Labels that are looked at between two pauses: well under a millisecond. */
const labelsAtOnce = 500;
/** Peers of a rule, and addresses of a rule. */
const mostFarEnds = 50;

/** A rule of the proposal. */
export interface RuleForTraffic {
  readonly direction: Direction;
  readonly rule: StoredRule;
}

export const byName = (a: SnapshotDevice, b: SnapshotDevice): number =>
  a.hostname < b.hostname ? -1 : a.hostname > b.hostname ? 1 : a.id < b.id ? -1 : 1;

export const directionOf = ({ direction }: StoredFlow): Direction => (direction === 'in' ? 'inbound' : 'outbound');

/** The protocol of a rule that admits this traffic and little more; undefined where there is none. Port 0 of a rule means any port. */
function ruleProtocol({ protocol, family, port }: StoredFlow): StoredProtocol | undefined {
  if (hasPort(protocol)) return port === 0 ? undefined : protocol === 6 ? 'tcp' : 'udp';
  if (protocol === 1 && family === 4) return 'icmp';
  return protocol === 58 && family === 6 ? 'icmpv6' : undefined;
}

export const isExpressible = (flow: StoredFlow): boolean => ruleProtocol(flow) !== undefined;

/** The devices of a fleet by address and by label. Each question is answered once. */
export class FarEnds {
  readonly #fleet: SnapshotFleet;
  readonly #owners = new Map<string, SnapshotDevice | undefined>();
  readonly #carriers = new Map<string, readonly SnapshotDevice[]>();

  constructor(fleet: SnapshotFleet) {
    this.#fleet = fleet;
  }

  /** The device that has the address; of several, the first by name. */
  owner({ family, far }: { readonly family: Family; readonly far: bigint }): SnapshotDevice | undefined {
    const key = `${family} ${far}`;
    if (!this.#owners.has(key)) {
      const only = [{ first: far, last: far }];
      const { devices } = this.#fleet.nameSet(family === 4 ? { v4: only, v6: [] } : { v4: [], v6: only });
      this.#owners.set(key, devices[0]);
    }
    return this.#owners.get(key);
  }

  carriers(label: string): readonly SnapshotDevice[] {
    let known = this.#carriers.get(label);
    if (known === undefined) this.#carriers.set(label, (known = [...this.#fleet.devicesOf({ labels: [label] })]));
    return known;
  }

  /** Of labels that the same number of devices carry, the one that the fewest devices of the fleet carry, then the first by text. */
  #isNarrower(label: string, other: string): boolean {
    const wider = this.carriers(other).length - this.carriers(label).length;
    return wider > 0 || (wider === 0 && label < other);
  }

  /**
   * Peers that name all of these devices: by label as long as one of them has a label, the others by id. The label that most of them carry comes first.
   * The caller can do other work between two steps.
   */
  *peersOf(devices: Iterable<SnapshotDevice>): Generator<void, readonly Peer[]> {
    const peers: Peer[] = [];
    const left = new Set(devices);
    const counts = new Map<string, number>();
    for (const { identity } of left) {
      for (const label of identity.labels) counts.set(label, (counts.get(label) ?? 0) + 1);
      yield;
    }
    while (left.size > 0 && peers.length < mostFarEnds) {
      let [common, most]: [string | undefined, number] = [undefined, 0];
      let looked = 0;
      for (const [label, carried] of counts) {
        if (carried > most || (carried === most && common !== undefined && this.#isNarrower(label, common)))
          [common, most] = [label, carried];
        if (++looked % labelsAtOnce === 0) yield;
      }
      if (common === undefined) {
        for (const { id } of [...left].toSorted(byName)) peers.push({ device_id: id });
        break;
      }
      peers.push({ labels: [common] });
      for (const device of this.carriers(common)) {
        if (!left.delete(device)) continue;
        for (const label of device.identity.labels) counts.set(label, (counts.get(label) ?? 0) - 1);
      }
      yield;
    }
    return peers.slice(0, mostFarEnds);
  }

  /** The devices that the labels of the rule name, besides those that were seen. */
  alsoNamed({ peers = [] }: StoredRule, seen: ReadonlySet<DeviceId>): readonly SnapshotDevice[] {
    const labels = peers.flatMap((peer) => ('labels' in peer ? peer.labels : []));
    return [...new Set(labels.flatMap((label) => this.carriers(label)))].filter(({ id }) => !seen.has(id));
  }
}

interface Service {
  readonly direction: Direction;
  readonly protocol: StoredProtocol;
  readonly port: number;
  packets: number;
  readonly devices: Set<SnapshotDevice>;
  /** Packets of addresses of no device. */
  readonly addresses: Map<string, number>;
}

const byService = (a: Service, b: Service): number =>
  (a.protocol < b.protocol ? -1 : a.protocol > b.protocol ? 1 : 0) || a.port - b.port;

function* ruleOf({ protocol, port, devices, addresses }: Service, farEnds: FarEnds): Generator<void, StoredRule> {
  const ip_ranges = [...addresses]
    .toSorted(([a, x], [b, y]) => y - x || (a < b ? -1 : 1))
    .slice(0, mostFarEnds)
    .map(([address]) => address)
    .toSorted();
  const peers = yield* farEnds.peersOf(devices);
  return {
    ip_protocol: protocol,
    from_port: port,
    to_port: port,
    ...(ip_ranges.length > 0 && { ip_ranges }),
    ...(peers.length > 0 && { peers }),
  };
}

/** The rules for this traffic: inbound, then outbound, each by protocol and port. The caller can do other work between two steps. */
export function* rulesForTraffic(
  flows: readonly StoredFlow[],
  farEnds: FarEnds,
): Generator<void, readonly RuleForTraffic[]> {
  const services = new Map<string, Service>();
  for (const flow of flows) {
    const protocol = ruleProtocol(flow);
    if (protocol === undefined) continue;
    const direction = directionOf(flow);
    const port = hasPort(flow.protocol) ? flow.port : 0;
    const key = `${direction} ${protocol} ${port}`;
    let service = services.get(key);
    if (service === undefined) {
      service = { direction, protocol, port, packets: 0, devices: new Set(), addresses: new Map() };
      services.set(key, service);
    }
    service.packets += flow.packets;
    const owner = farEnds.owner(flow);
    if (owner === undefined) {
      const address = printAddress(flow.family, flow.far);
      service.addresses.set(address, (service.addresses.get(address) ?? 0) + flow.packets);
    } else service.devices.add(owner);
    yield;
  }
  const rules: RuleForTraffic[] = [];
  for (const direction of ['inbound', 'outbound'] as const) {
    const kept = [...services.values()]
      .filter((service) => service.direction === direction)
      .toSorted((a, b) => b.packets - a.packets || byService(a, b))
      .slice(0, mostRules)
      .toSorted(byService);
    for (const service of kept) {
      rules.push({ direction, rule: yield* ruleOf(service, farEnds) });
      yield;
    }
  }
  return rules;
}
