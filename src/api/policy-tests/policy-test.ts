/** Owns the wire form of policy tests: what must be allowed or refused, and the results (reference 4.14). */
import { Type } from 'typebox';
import type { DeviceId, GroupId } from '../../policy/ids.ts';
import {
  testExpectations,
  testLimits,
  testProtocols,
  type PolicyTest as Written,
  type TestEnd as WrittenEnd,
} from '../../policy/policy-test/policy-test.ts';
import { NormalizedRule } from '../group.ts';
import { limits } from '../limits.ts';
import { givenId, id, Label, strict, type Wire } from '../scalar.ts';

const TestEnd = Type.Unsafe<WrittenEnd>(
  Type.Object(
    {
      labels: Type.Optional(
        Type.Array(Label, {
          minItems: 1,
          maxItems: limits.selectorLabels,
          uniqueItems: true,
          description: 'Devices that carry all of these.',
        }),
      ),
      device_id: Type.Optional(givenId('One device. One that is gone matches nothing.')),
      all_devices: Type.Optional(
        Type.Unsafe<true>({ type: 'boolean', enum: [true], description: 'Every device of the organization.' }),
      ),
      address: Type.Optional(
        Type.String({ description: 'One address of either family, which has no policy of its own.' }),
      ),
    },
    {
      ...strict,
      minProperties: 1,
      maxProperties: 1,
      $id: 'PolicyTestEnd',
      title: 'PolicyTestEnd',
      examples: [{ labels: ['app', 'prod'] }, { address: '192.0.2.1' }],
    },
  ),
);

const fields = {
  name: Type.String({ minLength: 1, maxLength: testLimits.nameLength, description: 'Of this test and no other.' }),
  from: TestEnd,
  to: TestEnd,
  protocol: Type.Enum([...testProtocols], { description: '`icmp` is an echo request of the family of the pair.' }),
  port: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 65_535,
      description: 'The destination port; with tcp and udp, and only there.',
    }),
  ),
  expect: Type.Enum([...testExpectations], {
    description: '`allow`: every pair may connect. `refuse`: no pair may.',
  }),
  note: Type.Optional(
    Type.String({ maxLength: testLimits.noteLength, multiline: true, description: 'Why; for people.' }),
  ),
};

const PolicyTest = Type.Unsafe<Written>(Type.Object(fields, { ...strict, $id: 'PolicyTest', title: 'PolicyTest' }));

/** The body of a replacement. `state`, `failure` and `until` of a list that was read are ignored. */
export const PolicyTests = Type.Array(PolicyTest, { maxItems: testLimits.tests });

const FailedEnd = Type.Object(
  {
    address: Type.String(),
    device_id: Type.Optional(id<DeviceId>('The device whose address it is; absent where the test names an address.')),
    hostname: Type.Optional(Type.String()),
  },
  { ...strict, $id: 'PolicyTestPairEnd', title: 'PolicyTestPairEnd' },
);
const direction = Type.Enum(['inbound', 'outbound']);

const TestFailure = Type.Object(
  {
    from: FailedEnd,
    to: FailedEnd,
    device_id: id<DeviceId>('The device whose policy decides.'),
    direction,
    reason: Type.Enum(['no-rule', 'forbid', 'isolated', 'rule', 'require', 'open', 'isolation-allows'], {
      description:
        'What refuses the pair (`no-rule`, `forbid`, `isolated`) or admits it (`rule`, `require`, `open`: no outbound rules, `isolation-allows`).',
    }),
    group_id: Type.Optional(id<GroupId>('The group whose rule decides.')),
    group_name: Type.Optional(Type.String()),
    rule: Type.Optional(NormalizedRule),
    fix: Type.Optional(
      Type.Object(
        {
          direction,
          rule: NormalizedRule,
          group_id: Type.Optional(id<GroupId>('A group in effect on the device, which the rule can be added to.')),
        },
        { ...strict, description: 'A rule that would admit the pair, where nothing admits it.' },
      ),
    ),
  },
  { ...strict, $id: 'PolicyTestFailure', title: 'PolicyTestFailure' },
);

export const PolicyTestResult = Type.Object(
  {
    ...fields,
    state: Type.Enum(['passing', 'failing', 'vacuous'], {
      description: '`vacuous`: no pair matches, so nothing was checked.',
    }),
    failure: Type.Optional(TestFailure),
    until: Type.Optional(
      Type.String({
        format: 'date-time',
        description:
          'A failing test with it passes until then, only by a change that is being tried. `failure` is the pair that fails after that.',
      }),
    ),
  },
  { ...strict, $id: 'PolicyTestResult', title: 'PolicyTestResult' },
);
export type PolicyTestResult = Wire<typeof PolicyTestResult>;
