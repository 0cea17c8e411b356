/** Owns the wire form of what an agent reports of the traffic: sums per direction, verdict, far address, protocol and port (reference 4.17). */
import { Type } from 'typebox';
import type { DeviceId } from '../../policy/ids.ts';
import { flowLimits, mostPackets } from '../limits.ts';
import { AgentSettings } from '../organization.ts';
import { givenId, id, strict, Timestamp, type Wire } from '../scalar.ts';

const flowDirections = ['in', 'out'] as const;
const flowVerdicts = ['refused', 'admitted'] as const;

export const FlowDirection = Type.Enum([...flowDirections], {
  description: 'From the view of the device: `in` is traffic to it, `out` is traffic from it.',
});
export const FlowVerdict = Type.Enum([...flowVerdicts], { description: 'What the kernel of the device did with it.' });
export const FlowProtocol = Type.String({
  maxLength: 8,
  description: '`tcp`, `udp`, `icmp`, `icmpv6`, or the number of another IP protocol.',
});
export const FlowPort = Type.Integer({
  minimum: 0,
  maximum: 65_535,
  description: 'Destination port, of `tcp` and `udp` only.',
});
export const FlowPackets = Type.Integer({
  minimum: 1,
  maximum: mostPackets,
  description: 'First packets of connections, as the kernel counted them.',
});

export const FlowTuple = Type.Object(
  {
    direction: FlowDirection,
    verdict: FlowVerdict,
    far: Type.String({ maxLength: 45, description: 'Address of the far end, IPv4 or IPv6.' }),
    protocol: FlowProtocol,
    port: Type.Optional(FlowPort),
    packets: FlowPackets,
    decision: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: flowLimits.decisionsPerReport - 1,
        description:
          'Place in `decisions` of the report, from 0: the rules on which the verdict stood. Absent: not known, such as beyond the limits.',
      }),
    ),
  },
  { ...strict, $id: 'FlowTuple', title: 'FlowTuple' },
);
export type FlowTuple = Wire<typeof FlowTuple>;

const DecidingRule = Type.Object(
  {
    group_id: givenId('The group that has the rule.'),
    rule_id: Type.String({
      maxLength: 32,
      description: 'A hash of its direction and its fields without the description, as in the usage of the group.',
    }),
  },
  { ...strict, $id: 'DecidingRule', title: 'DecidingRule' },
);

export const FlowReport = Type.Object(
  {
    since: { ...Timestamp, description: 'Start of the time that the sums are of, by the clock of the device.' },
    until: {
      ...Timestamp,
      description:
        'End of that time. A report with the same `until` as the one before of the same device counts once, so a retry is safe. Two hours ago or earlier: the server only counts its packets, as not recorded.',
    },
    observed: Type.Enum(['refused', 'all'], { description: 'What was recorded in that time.' }),
    tuples: Type.Array(FlowTuple, {
      maxItems: flowLimits.tuplesPerReport,
      description: 'At most 4,096 per direction, family and minute.',
    }),
    not_recorded: Type.Integer({
      minimum: 0,
      maximum: mostPackets,
      description: 'Packets that were counted but not recorded, because there were more tuples than allowed.',
    }),
    rules: Type.Optional(
      Type.Array(DecidingRule, {
        maxItems: flowLimits.rulesPerReport,
        description: 'The rules that decided the tuples, by the policy that was in force, each once.',
      }),
    ),
    decisions: Type.Optional(
      Type.Array(
        Type.Array(Type.Integer({ minimum: 0, maximum: flowLimits.rulesPerReport - 1 }), {
          maxItems: flowLimits.rulesPerReport,
        }),
        {
          maxItems: flowLimits.decisionsPerReport,
          description: 'Places in `rules`, from 0: every rule on which a verdict stood. Empty: no rule decided.',
        },
      ),
    ),
    groups: Type.Optional(
      Type.Array(givenId('A group.'), {
        maxItems: flowLimits.groupsPerReport,
        uniqueItems: true,
        description:
          'The groups that were in force on the device for all of that time. Absent: the report says nothing of rules, as that of an older agent.',
      }),
    ),
  },
  {
    ...strict,
    $id: 'FlowReport',
    title: 'FlowReport',
    examples: [
      {
        since: '2026-11-18T08:00:00Z',
        until: '2026-11-18T08:01:00Z',
        observed: 'refused',
        tuples: [
          {
            direction: 'in',
            verdict: 'refused',
            far: '100.64.0.7',
            protocol: 'tcp',
            port: 5432,
            packets: 3,
            rules: [0],
          },
          { direction: 'in', verdict: 'refused', far: 'fd00::7', protocol: 'icmpv6', packets: 1, decision: 1 },
        ],
        not_recorded: 0,
        rules: [{ group_id: '018f9c3e-5b7a-7c1d-9e2f-3a4b5c6d7e8f', rule_id: '8d1c0d5c1d8f4b6e9a3b7c2e5f60718a' }],
        decisions: [[0], []],
        groups: ['018f9c3e-5b7a-7c1d-9e2f-3a4b5c6d7e8f'],
      },
    ],
  },
);
export type FlowReport = Wire<typeof FlowReport>;

/** The answer to a report of flows. */
export const ReceivedFlows = Type.Object(
  {
    device_id: id<DeviceId>('The device.'),
    received: Type.Integer({
      minimum: 0,
      description:
        'Tuples that the server keeps: those that the organization observes, of a time that it still takes, and for which the minute has room.',
    }),
    settings: AgentSettings,
  },
  { ...strict, $id: 'ReceivedFlows', title: 'ReceivedFlows' },
);
export type ReceivedFlows = Wire<typeof ReceivedFlows>;
