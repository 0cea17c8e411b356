/** Owns the wire form of trials as a resource: their state, and the state of the devices that try them (reference 4.15). */
import { Type } from 'typebox';
import type { DeviceId, GroupId, UserId } from '../../policy/ids.ts';
import { InForceWord } from '../enforcement/convergence.ts';
import { limits } from '../limits.ts';
import { Selector } from '../group.ts';
import { PolicyTestResult } from '../policy-tests/policy-test.ts';
import { givenId, id, Revision, strict, Timestamp, type Wire } from '../scalar.ts';
import { trialFields } from './record-trial.ts';

const count = Type.Integer({ minimum: 0 });

const TrialDevice = Type.Object(
  {
    device_id: id<DeviceId>('The device.'),
    hostname: Type.String(),
    in_force: InForceWord,
    online: Type.Boolean(),
    last_seen_at: Type.Optional(Timestamp),
    detail: Type.Optional(Type.String({ description: 'What went wrong, for a person.' })),
  },
  { ...strict, $id: 'TrialDevice', title: 'TrialDevice' },
);

export const Trial = Type.Object(
  {
    ...trialFields(Selector),
    state: Type.Enum(['pending', 'confirmed', 'reverted', 'expired'], {
      description: '`reverted` by a person, `expired` by time. Only a pending trial can be confirmed or reverted.',
    }),
    security_groups: Type.Array(id<GroupId>('A group on trial.')),
    devices: Type.Array(id<DeviceId>('A device whose list is on trial.')),
    ended_at: Type.Optional(Timestamp),
    ended_by: Type.Optional(id<UserId>('Who confirmed or reverted it; absent where its time was over.')),
    revision: Revision,
    enforcement: Type.Optional(
      Type.Object(
        {
          devices: count,
          in_force: count,
          behind: count,
          failed: count,
          reverted: count,
          offline: count,
          never_seen: count,
          not_understood: count,
          trouble: Type.Array(TrialDevice, {
            description:
              'Devices that failed, reverted or do not understand the policy, and those that went offline since the start; the first of them.',
          }),
          more_trouble: Type.Optional(Type.Integer({ minimum: 1 })),
        },
        { ...strict, description: 'The devices in the scope of a pending trial, at the newest revision.' },
      ),
    ),
    failing_tests: Type.Optional(
      Type.Array(PolicyTestResult, {
        description: 'Of a pending trial: the policy tests that fail now; the first of them. Absent where none fails.',
      }),
    ),
    more_failing_tests: Type.Optional(Type.Integer({ minimum: 1 })),
  },
  { ...strict, $id: 'Trial', title: 'Trial' },
);
export type Trial = Wire<typeof Trial>;

export const UpdateTrial = Type.Object(
  {
    scope: Type.Union(
      [
        Type.Null(),
        Type.String({ minLength: 1, maxLength: limits.scopeText, examples: ['label:canary,label:edge+prod'] }),
        Type.Array(Selector, { minItems: 1, maxItems: limits.selectorsPerGroup }),
      ],
      { description: 'More devices than now: selectors, or the same as a text. Null: all devices.' },
    ),
  },
  { ...strict, $id: 'UpdateTrial', title: 'UpdateTrial', examples: [{ scope: 'label:canary,label:edge' }] },
);

export const RevertTrial = Type.Object(
  {
    records: Type.Optional(
      Type.Array(givenId('A group or a device of the trial.'), {
        minItems: 1,
        maxItems: limits.changeSetRecords,
        uniqueItems: true,
        description: 'Take only these out of the trial: they are what they were before, and the rest stays on trial.',
      }),
    ),
  },
  { ...strict, $id: 'RevertTrial', title: 'RevertTrial' },
);
