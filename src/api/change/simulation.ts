/** Owns the wire form of a simulation: what a change would do, before it is written (reference 4.16). */
import { Type } from 'typebox';
import type { DeviceId, GroupId } from '../../policy/ids.ts';
import { InForceWord } from '../enforcement/convergence.ts';
import { limits } from '../limits.ts';
import { PageQuery } from '../list.ts';
import type { Row } from '../operation-row.ts';
import { PolicyTestResult } from '../policy-tests/policy-test.ts';
import { ChangeSetBody } from './change-set.ts';
import { id, Revision, ShortText, strict, type Wire } from '../scalar.ts';

const port = Type.Integer({ minimum: 0, maximum: 65_535 });

const FarDevice = Type.Object(
  { id: id<DeviceId>('The device.'), hostname: ShortText('Name of the machine; may be empty.') },
  { ...strict, $id: 'FarDevice', title: 'FarDevice' },
);

/** Packets of new connections that a device would admit from now on, or no longer. */
export const SimulatedTraffic = Type.Object(
  {
    device: Type.Object(
      {
        id: id<DeviceId>('The device.'),
        hostname: ShortText('Name of the machine; may be empty.'),
        in_force: Type.Optional(InForceWord),
      },
      {
        ...strict,
        description: 'The device whose rules admit it. `in_force` tells whether its present policy is in force.',
      },
    ),
    direction: Type.Enum(['inbound', 'outbound']),
    protocol: Type.Enum(['any', 'tcp', 'udp', 'icmp', 'icmpv6', 'other'], {
      description:
        '`any`: every protocol. `icmp`, `icmpv6`: echo request and reply. `other`: every protocol except TCP, UDP and echo.',
    }),
    ports: Type.Optional(
      Type.Array(Type.Object({ from: port, to: port }, strict), {
        description: 'With `tcp` and `udp`: destination ports, both ends inclusive. 0 to 65535 are all ports.',
      }),
    ),
    far: Type.Object(
      {
        ranges: Type.Array(Type.String(), {
          description: 'Every address of the far end, as prefixes, single addresses and `first-last`.',
        }),
        devices: Type.Array(FarDevice, {
          description: `The devices whose own addresses are in \`ranges\`, by name; the first ${limits.simulatedFarDevices}.`,
        }),
        device_count: Type.Integer({ minimum: 0, description: 'How many devices have an address in `ranges`.' }),
        others: Type.Boolean({ description: 'Whether `ranges` also hold addresses that no device has.' }),
      },
      strict,
    ),
  },
  { ...strict, $id: 'SimulatedTraffic', title: 'SimulatedTraffic' },
);
export type SimulatedTraffic = Wire<typeof SimulatedTraffic>;

export const SimulationWarning = Type.Object(
  {
    pointer: Type.String({ description: 'JSON pointer into the body; empty where it is about the whole change.' }),
    code: Type.Enum(['would_open', 'group_in_use', 'void_by_guardrail'], {
      description:
        '`would_open`: devices would fall back to the default group. `group_in_use`: devices have the deleted group. `void_by_guardrail`: guardrails forbid all that the rule admits.',
    }),
    detail: Type.String({ description: 'A sentence for a person.' }),
    devices: Type.Optional(Type.Array(id<DeviceId>('A device.'))),
    more_devices: Type.Optional(Type.Integer({ minimum: 1, description: 'How many devices there are besides.' })),
    guardrail_ids: Type.Optional(Type.Array(id<GroupId>('A guardrail.'))),
  },
  { ...strict, $id: 'SimulationWarning', title: 'SimulationWarning' },
);
export type SimulationWarning = Wire<typeof SimulationWarning>;

export const Simulation = Type.Object(
  {
    revision: Type.Integer({ ...Revision, description: 'The revision that the change was compared with.' }),
    affected: Type.Integer({ minimum: 0, description: 'How many devices are affected, on all pages together.' }),
    devices: Type.Array(id<DeviceId>('A device.'), {
      description: 'The devices of this page whose policy would mean another thing, by id.',
    }),
    in_force: Type.Record(Type.String({ format: 'uuid' }), InForceWord, {
      description: 'Whether the present policy is in force, for each of these devices.',
    }),
    too_much: Type.Optional(
      Type.Object(
        { gained: Type.Integer({ minimum: 0 }), lost: Type.Integer({ minimum: 0 }) },
        {
          ...strict,
          description:
            'Present where one device gains or loses more than an answer holds: how many entries of `gained` and `lost` are left out. It is then alone on its page.',
        },
      ),
    ),
    gained: Type.Array(SimulatedTraffic, {
      description:
        'What these devices would admit and do not admit now: all of it but what `too_much` counts, and no packet twice.',
    }),
    lost: Type.Array(SimulatedTraffic, { description: 'What these devices admit now and would not admit any more.' }),
    warnings: Type.Array(SimulationWarning),
    tests: Type.Array(PolicyTestResult, {
      description: 'How policy tests would come out: those of the body, else the stored ones.',
    }),
  },
  { ...strict, $id: 'Simulation', title: 'Simulation' },
);
export type Simulation = Wire<typeof Simulation>;

const SimulateBody = Type.Object(ChangeSetBody.properties, {
  ...strict,
  $id: 'SimulateBody',
  title: 'SimulateBody',
  description: `At most ${limits.changeSetRecords} records in all lists together. \`policy_tests\`, for owners, replace the stored ones.`,
  examples: [{ devices: [{ id: '018f9c3e-5b7a-7c1d-9e2f-3a4b5c6d7e8f', labels: ['database'] }] }],
});

const SimulateQuery = Type.Object(
  {
    ...PageQuery.properties,
    force: Type.Optional(
      Type.Boolean({ description: 'Also where a `forbid` guardrail leaves nothing of a direction.' }),
    ),
  },
  strict,
);

export const simulationRows = {
  simulateChanges: {
    effect: 'read',
    cost: 'organization',
    tag: 'security groups',
    summary: 'Tell who would gain and lose what by a change, without writing it',
    query: SimulateQuery,
    body: SimulateBody,
    bodySize: 'rules',
    bodyReader: 'handler',
    answer: Simulation,
    fails: [
      'labels_by_owner',
      'address_by_owner',
      'isolated_by_owner',
      'phase_limit',
      'precondition_failed',
      'trial_pending',
    ],
  },
} as const satisfies Readonly<Record<string, Row>>;
