/** Owns the wire form of the overview: the state of the fleet now and over time (reference 4.12). */
import { Type } from 'typebox';
import { Convergence, PendingDevice } from './convergence.ts';
import { largestRevision, mostPackets } from '../limits.ts';
import { givenId, strict, Timestamp, type Wire } from '../scalar.ts';

const count = (description: string) => Type.Integer({ minimum: 0, maximum: largestRevision, description });

/** What an agent counted since its last report. */
export const PacketReport = Type.Object(
  {
    admitted: Type.Integer({ minimum: 0, maximum: mostPackets, description: 'Packets that passed.' }),
    refused: Type.Integer({ minimum: 0, maximum: mostPackets, description: 'Packets that nothing admitted.' }),
  },
  { ...strict, description: 'Packets since its last report. Where everything passes, none are counted.' },
);
export type PacketReport = Wire<typeof PacketReport>;

const matched = (direction: string) =>
  Type.Optional(
    Type.Integer({ minimum: 0, maximum: mostPackets, description: `${direction}; absent where nothing is counted.` }),
  );

/** What the rules of one group matched on a device, as long as it has the group. */
export const GroupPackets = Type.Object(
  { group_id: givenId('The group.'), inbound: matched('Inbound'), outbound: matched('Outbound') },
  { ...strict, $id: 'GroupPackets', title: 'GroupPackets' },
);
export type GroupPackets = Wire<typeof GroupPackets>;

export const FleetSample = Type.Object(
  {
    at: Timestamp,
    devices: Type.Optional(count('Devices of the organization, when most were not in force.')),
    in_force: Type.Optional(count('Those of them that had their policy in force.')),
    admitted: count('Packets that devices reported as admitted.'),
    refused: count('Packets that devices reported as refused.'),
  },
  { ...strict, $id: 'FleetSample', title: 'FleetSample' },
);
export type FleetSample = Wire<typeof FleetSample>;

/** Devices that an overview names; the rest are counted. */
export const mostUrgent = 20;
/** Seconds of one sample, and for how long samples are kept. */
export const sampleSeconds = 300;
export const sampleHours = 14 * 24;

const { revision, pending: _pending, ...counts } = Convergence.properties;

export const Overview = Type.Object(
  {
    revision,
    ...counts,
    online: count('Devices that hold a stream right now.'),
    policy_tests: Type.Optional(
      Type.Object(
        {
          passing: count('Policy tests that pass.'),
          failing: count('Policy tests that fail.'),
          vacuous: count('Policy tests that no pair of devices matches.'),
          not_judged: Type.Optional(
            count('Policy tests that take too much work to be judged: all of them, or absent.'),
          ),
        },
        { ...strict, description: 'States of the policy tests; absent where there are none, and for device tokens.' },
      ),
    ),
    urgent: Type.Array(PendingDevice, {
      maxItems: mostUrgent,
      description: 'Devices that are not in force, the worst first.',
    }),
    sample_seconds: count('How much time each sample stands for.'),
    samples: Type.Array(FleetSample, { description: 'Oldest first. Times in which no device reported are left out.' }),
  },
  { ...strict, $id: 'Overview', title: 'Overview' },
);
export type Overview = Wire<typeof Overview>;

export const OverviewQuery = Type.Object(
  {
    hours: Type.Optional(
      Type.Integer({ minimum: 1, maximum: sampleHours, description: 'How far samples reach back; 24 unless given.' }),
    ),
  },
  strict,
);
