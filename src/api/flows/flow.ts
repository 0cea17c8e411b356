/** Owns the wire form of observed traffic as people read it: who, what, how often, and the rule that decides (reference 4.17). */
import { Type } from 'typebox';
import { ruleFields } from '../../policy/flow/nearest-rule.ts';
import type { DeviceId, GroupId } from '../../policy/ids.ts';
import { NormalizedRule } from '../group.ts';
import { explanationReasons } from '../enforcement/explanation-reasons.ts';
import { limits } from '../limits.ts';
import { givenId, id, Labels, ShortText, strict, Timestamp, type Wire } from '../scalar.ts';
import { FlowDirection, FlowPackets, FlowPort, FlowProtocol, FlowVerdict } from './flow-report.ts';

/** Rules and proposals say `inbound` and `outbound`, so a reader may ask in these words too. */
const AskedDirection = Type.Enum(['in', 'out', 'inbound', 'outbound'], {
  description: 'Only traffic to the device (`in` or `inbound`), or from it (`out` or `outbound`).',
});

export const FlowQuery = Type.Object(
  {
    device_id: Type.Optional(givenId('Only traffic that this device observed.')),
    group_id: Type.Optional(givenId('Only traffic that devices with this group observed.')),
    far: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 128,
        description: 'Only traffic with this far end: an address, a range of addresses, or the id of a device.',
      }),
    ),
    direction: Type.Optional(AskedDirection),
    verdict: Type.Optional(FlowVerdict),
    protocol: Type.Optional(FlowProtocol),
    port: Type.Optional(FlowPort),
    since: Type.Optional({ ...Timestamp, description: 'Only sums of times that end after this.' }),
    until: Type.Optional({ ...Timestamp, description: 'Only sums of times that begin before this.' }),
    limit: Type.Optional(
      Type.Integer({ minimum: 1, maximum: limits.page, description: 'Maximum number of sums; 100 unless given.' }),
    ),
    after: Type.Optional(
      Type.String({
        maxLength: 64,
        description: 'Where the page before ended: take it from its `Link: rel="next"`.',
      }),
    ),
  },
  strict,
);
export type FlowQuery = Wire<typeof FlowQuery>;

const ruleReference = {
  group_id: id<GroupId>('The group.'),
  group_name: Type.String(),
  index: Type.Integer({ minimum: 0, description: 'Place of the rule in the direction of the traffic.' }),
  rule: NormalizedRule,
};

export const FlowDecision = Type.Object(
  {
    verdict: FlowVerdict,
    reason: Type.Enum([...explanationReasons], { description: 'Why, as in an explanation.' }),
    rule: Type.Optional(
      Type.Object(ruleReference, { ...strict, description: 'The rule that admits or, in a guardrail, forbids it.' }),
    ),
    nearest: Type.Optional(
      Type.Object(
        {
          ...ruleReference,
          differs: Type.Array(Type.Enum([...ruleFields]), {
            description: 'What does not match: `expires_at` (it has expired), `ip_protocol`, `port`, `far`.',
          }),
        },
        {
          ...strict,
          description:
            'Where no rule admits it: the nearest rule. One about the same protocol and port comes first, then the one that differs in the fewest fields, then the first.',
        },
      ),
    ),
  },
  { ...strict, $id: 'FlowDecision', title: 'FlowDecision' },
);
export type FlowDecision = Wire<typeof FlowDecision>;

export const Flow = Type.Object(
  {
    device_id: id<DeviceId>('The device that observed it.'),
    hostname: Type.Optional(ShortText('Its present name; absent of a device that was deleted.')),
    since: Timestamp,
    until: Timestamp,
    direction: FlowDirection,
    verdict: FlowVerdict,
    far: Type.String({ description: 'Address of the far end.' }),
    far_devices: Type.Array(
      Type.Object(
        { device_id: id<DeviceId>('The device.'), hostname: ShortText('Its name.'), labels: Labels('Its labels.') },
        strict,
      ),
      { description: 'Devices of the organization that have this address now.' },
    ),
    protocol: FlowProtocol,
    port: Type.Optional(FlowPort),
    packets: FlowPackets,
    decision: Type.Optional(FlowDecision),
  },
  {
    ...strict,
    $id: 'Flow',
    title: 'Flow',
    description:
      '`verdict` is what the kernel did. `decision` is what the present policy says, which may have changed since; absent where the policy of the device is not known.',
  },
);
export type Flow = Wire<typeof Flow>;

export const FlowCoverageQuery = Type.Object(
  {
    device_id: FlowQuery.properties.device_id,
    since: Type.Optional({
      ...Timestamp,
      description: 'From the day of this time on; absent: from the day of 24 hours ago on.',
    }),
  },
  strict,
);
export type FlowCoverageQuery = Wire<typeof FlowCoverageQuery>;

export const FlowCoverage = Type.Object(
  {
    since: { ...Timestamp, description: 'Start of the first day, in UTC.' },
    until: Timestamp,
    devices: Type.Integer({ minimum: 0, description: 'Devices that reported observed traffic in that time.' }),
    not_recorded: Type.Integer({
      minimum: 0,
      description:
        'Packets that these devices counted but did not record, because there were more tuples than allowed.',
    }),
  },
  { ...strict, $id: 'FlowCoverage', title: 'FlowCoverage' },
);
export type FlowCoverage = Wire<typeof FlowCoverage>;
