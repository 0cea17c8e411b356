/** Owns why a test fails: the pair, the rule that decides, and the rule that would fix it. */
import { printAddress, type Address } from '../address.ts';
import { decide, type Reason } from '../decide.ts';
import { isNamed } from '../fleet/selector.ts';
import type { PeerLookup } from '../fleet/rule-peers.ts';
import { parseDeviceId } from '../ids.ts';
import { normalizeRules } from '../normalize.ts';
import type { Direction, Peer, StoredRule } from '../rule.ts';
import { transportOf } from './admitted.ts';
import type { FleetIndex } from './fleet-index.ts';
import type { FailedEnd, PolicyTest, TestEnd, TestFailure } from './policy-test.ts';

/** Places of devices in the index, or `noDevice`, and the numbers of their addresses. */
export interface FailedPair {
  readonly from: number;
  readonly fromSlot: number;
  readonly to: number;
  readonly toSlot: number;
  /** Whose policy decides: that of `from` (outbound) or that of `to`. */
  readonly direction: Direction;
}

function endOf(place: number, slot: number, fleet: FleetIndex): FailedEnd {
  const { family, value } = fleet.addresses.addressAt(slot);
  const device = fleet.devices[place];
  return {
    address: printAddress(family, value),
    ...(device !== undefined && { device_id: parseDeviceId(device.identity.id), hostname: device.hostname }),
  };
}

/** Whom rules name, as far as one address is among them. */
function atAddress({ family, value }: Address, slot: number, fleet: FleetIndex): PeerLookup {
  const owners = fleet.ownersOf(slot).flatMap((place) => fleet.devices[place] ?? []);
  const only = [{ first: value, last: value }];
  const [v4, v6] = family === 4 ? [only, []] : [[], only];
  return {
    addressesOf: (peer) => (owners.some(({ identity }) => isNamed(peer, identity)) ? { v4, v6 } : { v4: [], v6: [] }),
    get: (id) => fleet.find(id)?.identity,
  };
}

/** The rule that admits what the test names as its other end. */
function fixOf(test: PolicyTest, far: TestEnd, family: 4 | 6): StoredRule | undefined {
  const named = 'address' in far ? { ip_ranges: [far.address] } : { peers: [far satisfies Peer] };
  const port = test.port ?? 0;
  const ip_protocol = test.protocol === 'icmp' && family === 6 ? 'icmpv6' : test.protocol;
  return normalizeRules([{ ip_protocol, from_port: port, to_port: port, ...named }])[0];
}

/** Without what is no part of a rule as it is stored. */
function withoutMembers({ members: _members, expired: _expired, ...rule }: StoredRule): StoredRule {
  return rule;
}

const reasonKinds = ['no-rule', 'forbid', 'rule', 'require', 'open', 'isolated', 'isolation-allows'] as const;
const reasonOf = ({ kind }: Reason): TestFailure['reason'] =>
  kind === 'far-end-isolated' ? 'isolated' : (reasonKinds.find((each) => each === kind) ?? 'no-rule');

export function failureOf(test: PolicyTest, pair: FailedPair, fleet: FleetIndex): TestFailure {
  const [own, farSlot, far] =
    pair.direction === 'outbound' ? [pair.from, pair.toSlot, test.to] : [pair.to, pair.fromSlot, test.from];
  const address = fleet.addresses.addressAt(farSlot);
  const { direction } = pair;
  const { policy } = fleet.cohortOf(own);
  const packet = {
    direction,
    family: address.family,
    remote: address.value,
    transport: transportOf(test, address.family),
  };
  const { reason } = decide(policy, packet, { fleet: atAddress(address, farSlot, fleet) });
  const rule = reason.kind === 'no-rule' ? fixOf(test, far, address.family) : undefined;
  const group = policy.groups[0];
  return {
    from: endOf(pair.from, pair.fromSlot, fleet),
    to: endOf(pair.to, pair.toSlot, fleet),
    device_id: parseDeviceId(fleet.devices[own]?.identity.id ?? ''),
    direction,
    reason: reasonOf(reason),
    ...('rule' in reason && {
      group_id: reason.group.id,
      group_name: reason.group.name,
      rule: withoutMembers(reason.rule),
    }),
    ...(rule && { fix: { direction, rule, ...(group && { group_id: group.id }) } }),
  };
}
