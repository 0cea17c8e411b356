/** Owns the wire form of a proposal: rules that would admit the observed traffic of some devices, with their evidence (reference 4.23). */
import { Type } from 'typebox';
import type { DeviceId } from '../../policy/ids.ts';
import { FlowDirection, FlowPackets, FlowPort, FlowProtocol } from '../flows/flow-report.ts';
import { AddSecurityGroup, NormalizedRule } from '../group.ts';
import { limits } from '../limits.ts';
import { givenId, id, Label, ShortText, strict, Timestamp, type Wire } from '../scalar.ts';
import { share } from './rule-usage.ts';

const count = (description: string) => Type.Integer({ minimum: 0, description });

export const ProposalRequest = Type.Object(
  {
    device_ids: Type.Optional(
      Type.Array(givenId('A device of the organization.'), {
        minItems: 1,
        maxItems: limits.proposalDevices,
        uniqueItems: true,
        description: 'The devices to propose rules for.',
      }),
    ),
    labels: Type.Optional(
      Type.Array(Label, {
        minItems: 1,
        maxItems: limits.selectorLabels,
        uniqueItems: true,
        description: 'Instead of `device_ids`: the devices that carry all of these.',
      }),
    ),
    since: Type.Optional(
      Type.String({ format: 'date-time', description: 'RFC 3339. Start of the window; absent: seven days ago.' }),
    ),
    include_refused: Type.Optional(
      Type.Boolean({ description: 'Propose rules also for traffic that the far end refused.' }),
    ),
  },
  {
    ...strict,
    $id: 'ProposalRequest',
    title: 'ProposalRequest',
    description: 'Exactly one of `device_ids` and `labels`.',
    examples: [{ labels: ['db'] }, { device_ids: ['018f9c3e-5b7a-7c1d-9e2f-3a4b5c6d7e8f'] }],
  },
);
export type ProposalRequest = Wire<typeof ProposalRequest>;

const device = Type.Object({ device_id: id<DeviceId>('The device.'), hostname: ShortText('Its name.') }, strict);
const devices = (description: string) => Type.Array(device, { description: `${description}, by name; the first 10.` });

export const ProposedRule = Type.Object(
  {
    direction: Type.Enum(['inbound', 'outbound']),
    rule: NormalizedRule,
    packets: count('First packets that the rule would admit.'),
    last_seen: Timestamp,
    devices: devices('The devices that observed this traffic'),
    device_count: count('How many there are.'),
    far_ends: Type.Array(
      Type.Object(
        {
          far: Type.String({ description: 'Address of the far end.' }),
          device_id: Type.Optional(
            id<DeviceId>('The device that this address proves to be; of several, the first by name.'),
          ),
          hostname: Type.Optional(ShortText('Its name.')),
          ambiguous: Type.Optional(devices('Devices that list this address, which proves none of them')),
          packets: count('First packets with this far end.'),
          last_seen: Timestamp,
        },
        strict,
      ),
      { description: 'The far addresses with the most packets; the first 10.' },
    ),
    far_end_count: count('How many far addresses there are.'),
    seen_once: count('Of these, addresses of no device that were seen with one packet only: check them.'),
    also_admits: devices('Devices that the labels of the rule name and that were not seen'),
    also_admits_count: count('How many there are.'),
    ambiguous: Type.Optional(
      devices('Devices that list an address which the rule names by itself, because nothing proves that it is theirs'),
    ),
    ambiguous_count: Type.Optional(count('How many there are.')),
    refused_by_far_end: Type.Optional(
      count('Of the packets, those that the far end refused. Only with `include_refused`.'),
    ),
    assumes_echo: Type.Optional(
      Type.Unsafe<true>(
        Type.Boolean({
          const: true,
          description: 'Only on a rule for ICMP: records have no ICMP type, and the rule admits echo requests only.',
        }),
      ),
    ),
  },
  { ...strict, $id: 'ProposedRule', title: 'ProposedRule' },
);
export type ProposedRule = Wire<typeof ProposedRule>;

const notCoveredReasons = ['not_expressible', 'too_many', 'forbidden'] as const;

const leftOut = {
  device_id: id<DeviceId>('The device that observed it.'),
  hostname: ShortText('Its name.'),
  direction: FlowDirection,
  far: Type.String({ description: 'Address of the far end.' }),
  protocol: FlowProtocol,
  port: Type.Optional(FlowPort),
  packets: FlowPackets,
  last_seen: Timestamp,
};

export const NotCovered = Type.Object(
  {
    ...leftOut,
    reason: Type.Enum([...notCoveredReasons], {
      description:
        '`not_expressible`: no rule admits this protocol or port without admitting much more. `too_many`: there are more rules or far ends than a proposal holds. `forbidden`: a guardrail forbids it.',
    }),
  },
  { ...strict, $id: 'NotCovered', title: 'NotCovered' },
);
export type NotCovered = Wire<typeof NotCovered>;

const LeftOut = Type.Object(leftOut, strict);
export type LeftOut = Wire<typeof LeftOut>;

export const Proposal = Type.Object(
  {
    since: {
      ...Timestamp,
      description: 'Start of the window; later than asked where there is too much traffic to look at.',
    },
    until: { ...Timestamp, description: 'End of the window: now.' },
    devices: count('Devices that the proposal is for.'),
    device_days: Type.Number({
      minimum: 0,
      description: 'The days of the window, of all these devices together, from when each was registered.',
    }),
    observed: share('The share of this time in which admitted traffic was observed (`observe` is `all`).'),
    not_recorded: count('Packets that agents counted and did not record, because there were too many.'),
    admitted_packets: count('Admitted first packets that were looked at.'),
    refused_packets: count('Refused first packets in the window: no rule is proposed for them.'),
    rules: Type.Array(ProposedRule, { description: 'Inbound, then outbound, each by protocol and port.' }),
    not_covered: Type.Object(
      {
        packets: count('First packets.'),
        sums: count('How many different sums: device, direction, far address, protocol and port.'),
        flows: Type.Array(NotCovered, { description: 'Those with the most packets; the first 100.' }),
      },
      {
        ...strict,
        description:
          'Observed traffic that was admitted and that the group, if it enforced, would refuse; besides `refused_by_far_end`.',
      },
    ),
    refused_by_far_end: Type.Object(
      {
        packets: count('First packets.'),
        sums: count('How many different sums there are.'),
        flows: Type.Array(LeftOut, { description: 'Those with the most packets; the first 100.' }),
      },
      {
        ...strict,
        description:
          'Outbound traffic that the device at the far end refused when it last reported it. It gets no rules without `include_refused`.',
      },
    ),
    group: AddSecurityGroup,
  },
  {
    ...strict,
    $id: 'Proposal',
    title: 'Proposal',
    description:
      '`group` is a watch-only group with these rules, ready to be created. With `labels` it applies to them. Without outbound rules, everything may go out.',
  },
);
export type Proposal = Wire<typeof Proposal>;
