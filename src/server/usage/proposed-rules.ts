/**
 * Owns the rules that would admit observed traffic: one for each direction, protocol and port, whose far ends are labels where these are proven. No effects.
 */
import { hasPort } from '../../policy/flow/protocol.ts';
import type { DeviceId } from '../../policy/ids.ts';
import type { Direction, Peer, StoredProtocol, StoredRule } from '../../policy/rule.ts';
import type { OrganizationDevice } from '../../organization/organization.ts';
import type { StoredFlow } from '../store/data/flows.ts';
import { farKey, isProven, type FarAddress, type FarEnd, type FarEnds } from './far-ends.ts';

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
  /** Who each far address of the traffic is, by its key. */
  readonly ends: ReadonlyMap<string, FarEnd>;
}

export const byName = (a: OrganizationDevice, b: OrganizationDevice): number =>
  a.hostname < b.hostname ? -1 : a.hostname > b.hostname ? 1 : a.id < b.id ? -1 : 1;

export const directionOf = ({ direction }: StoredFlow): Direction => (direction === 'in' ? 'inbound' : 'outbound');

/** The protocol of a rule that admits this traffic and little more; undefined where there is none. Port 0 of a rule means any port. */
function ruleProtocol({ protocol, family, port }: StoredFlow): StoredProtocol | undefined {
  if (hasPort(protocol)) return port === 0 ? undefined : protocol === 6 ? 'tcp' : 'udp';
  if (protocol === 1 && family === 4) return 'icmp';
  return protocol === 58 && family === 6 ? 'icmpv6' : undefined;
}

export const isExpressible = (flow: StoredFlow): boolean => ruleProtocol(flow) !== undefined;

/** Of labels that name the same number of far ends, the one that the fewest devices of the fleet carry, then the first by text. */
function isNarrower(label: string, other: string, farEnds: FarEnds): boolean {
  const wider = farEnds.carriers(other).length - farEnds.carriers(label).length;
  return wider > 0 || (wider === 0 && label < other);
}

/**
 * Peers that name all of these far ends: by label as long as one of them has a label, the others by id. The label that names most of them comes first.
 * The caller can do other work between two steps.
 */
function* peersOf(proven: readonly FarEnd[], farEnds: FarEnds): Generator<void, readonly Peer[]> {
  const peers: Peer[] = [];
  const left = new Set(proven);
  const byLabel = new Map<string, FarEnd[]>();
  const counts = new Map<string, number>();
  for (const end of proven) {
    for (const label of end.labels) {
      counts.set(label, (counts.get(label) ?? 0) + 1);
      const known = byLabel.get(label);
      if (known === undefined) byLabel.set(label, [end]);
      else known.push(end);
    }
    yield;
  }
  while (left.size > 0 && peers.length < mostFarEnds) {
    let [common, most]: [string | undefined, number] = [undefined, 0];
    let looked = 0;
    for (const [label, count] of counts) {
      if (count > most || (count === most && common !== undefined && isNarrower(label, common, farEnds)))
        [common, most] = [label, count];
      if (++looked % labelsAtOnce === 0) yield;
    }
    if (common === undefined) {
      const devices = new Set([...left].flatMap((end) => end.devices));
      for (const { id } of [...devices].toSorted(byName)) peers.push({ device_id: id });
      break;
    }
    peers.push({ labels: [common] });
    for (const end of byLabel.get(common) ?? []) {
      if (!left.delete(end)) continue;
      for (const label of end.labels) counts.set(label, (counts.get(label) ?? 0) - 1);
    }
    yield;
  }
  return peers.slice(0, mostFarEnds);
}

/** The devices that the labels of the rule name, besides those that were seen. */
export function alsoNamed(
  { peers = [] }: StoredRule,
  seen: ReadonlySet<DeviceId>,
  farEnds: FarEnds,
): readonly OrganizationDevice[] {
  const labels = peers.flatMap((peer) => ('labels' in peer ? peer.labels : []));
  return [...new Set(labels.flatMap((label) => farEnds.carriers(label)))].filter(({ id }) => !seen.has(id));
}

interface SeenAddress extends FarAddress {
  packets: number;
  last: string;
}

interface Service {
  readonly direction: Direction;
  readonly protocol: StoredProtocol;
  readonly port: number;
  packets: number;
  readonly addresses: Map<string, SeenAddress>;
}

const byService = (a: Service, b: Service): number =>
  (a.protocol < b.protocol ? -1 : a.protocol > b.protocol ? 1 : 0) || a.port - b.port;

function* ruleOf(
  { direction, protocol, port, addresses }: Service,
  farEnds: FarEnds,
  firstSeen: ReadonlyMap<string, string>,
): Generator<void, RuleForTraffic> {
  const ends = new Map<string, FarEnd>();
  const others: { readonly address: string; readonly packets: number }[] = [];
  for (const [key, seen] of addresses) {
    const end = farEnds.farEnd(seen, { first: firstSeen.get(key) ?? '', last: seen.last });
    ends.set(key, end);
    if (!isProven(end)) others.push({ address: end.address, packets: seen.packets });
    yield;
  }
  const ip_ranges = others
    .toSorted((a, b) => b.packets - a.packets || (a.address < b.address ? -1 : 1))
    .slice(0, mostFarEnds)
    .map(({ address }) => address)
    .toSorted();
  const peers = yield* peersOf([...ends.values()].filter(isProven), farEnds);
  const rule = {
    ip_protocol: protocol,
    from_port: port,
    to_port: port,
    ...(ip_ranges.length > 0 && { ip_ranges }),
    ...(peers.length > 0 && { peers }),
  };
  return { direction, rule, ends };
}

/**
 * The rules for this traffic: inbound, then outbound, each by protocol and port. `firstSeen` is the end of the first report of each far address.
 * The caller can do other work between two steps.
 */
export function* rulesForTraffic(
  flows: readonly StoredFlow[],
  farEnds: FarEnds,
  firstSeen: ReadonlyMap<string, string>,
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
      service = { direction, protocol, port, packets: 0, addresses: new Map() };
      services.set(key, service);
    }
    service.packets += flow.packets;
    const { family, far, packets, until } = flow;
    const seen = service.addresses.get(farKey(flow));
    if (seen === undefined) service.addresses.set(farKey(flow), { family, far, packets, last: until });
    else {
      seen.packets += packets;
      if (until > seen.last) seen.last = until;
    }
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
      rules.push(yield* ruleOf(service, farEnds, firstSeen));
      yield;
    }
  }
  return rules;
}
