/** Owns why a test fails: the pair, the rule that decides, and the rule that would fix it. */
import { printAddress, type Address } from '../../policy/address.ts';
import { decide, type Reason } from '../../policy/decide.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import type { DeviceId } from '../../policy/ids.ts';
import { normalizeRules } from '../../policy/normalize.ts';
import type { Direction, Peer, StoredRule } from '../../policy/rule.ts';
import { transportOf } from './admitted.ts';
import { peersAt } from '../fleet.ts';
import type { FleetIndex } from './fleet-index.ts';
import type { FailedEnd, PolicyTest, TestEnd, TestFailure } from '../../policy/policy-test/policy-test.ts';

/** One end of a pair: an address, and the device that has it where the test is about devices. */
export interface PairEnd {
  readonly id?: DeviceId;
  readonly address: Address;
}

export interface FailedPair {
  readonly from: PairEnd;
  readonly to: PairEnd;
  /** Whose policy decides: that of `from` (outbound) or that of `to`. */
  readonly direction: Direction;
}

/** The organization at the moment of the failure. */
export interface FailureContext {
  readonly fleet: FleetIndex;
  /** The policy of the device at this place. */
  readonly policyAt: (place: number) => EffectivePolicy;
}

function endOf({ id, address: { family, value } }: PairEnd, fleet: FleetIndex): FailedEnd {
  const address = printAddress(family, value);
  return id === undefined ? { address } : { address, device_id: id, hostname: fleet.find(id)?.hostname ?? '' };
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

export function failureOf(test: PolicyTest, pair: FailedPair, { fleet, policyAt }: FailureContext): TestFailure {
  const { direction } = pair;
  const [own, { address }, far] =
    direction === 'outbound' ? [pair.from, pair.to, test.to] : [pair.to, pair.from, test.from];
  const place = own.id === undefined ? undefined : fleet.placeOf(own.id);
  if (own.id === undefined || place === undefined) throw new Error('a device decides');
  const policy = policyAt(place);
  const packet = {
    direction,
    family: address.family,
    remote: address.value,
    transport: transportOf(test, address.family),
  };
  const owners = fleet.ownersAt(address).flatMap((owner) => fleet.devices[owner] ?? []);
  const { reason } = decide(policy, packet, { fleet: peersAt(address, owners, (id) => fleet.find(id)?.identity) });
  const rule = reason.kind === 'no-rule' ? fixOf(test, far, address.family) : undefined;
  const group = policy.groups[0];
  return {
    from: endOf(pair.from, fleet),
    to: endOf(pair.to, fleet),
    device_id: own.id,
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
