/** Owns the wire form of convergence: on how many devices a revision is in force, and on which it is not (reference 4.10). */
import { Type } from 'typebox';
import type { ChangeSetId, DeviceId } from '../../policy/ids.ts';
import { inForceWords } from './in-force.ts';
import { largestRevision, limits } from '../limits.ts';
import { id, Revision, ShortText, strict, Text, Timestamp, type Wire } from '../scalar.ts';

export const InForceWord = Type.Enum([...inForceWords], {
  description: 'Whether the policy is in force on the device, as the server knows it.',
});

const count = (description: string) => Type.Integer({ minimum: 0, maximum: largestRevision, description });

export const PendingDevice = Type.Object(
  {
    device_id: id<DeviceId>('The device.'),
    hostname: ShortText('Name of the machine; may be empty.'),
    in_force: InForceWord,
    revision: Type.Optional(Type.Integer({ ...Revision, description: 'What its rules reflect, as it last reported.' })),
    observed_revision: Type.Optional(
      Type.Integer({ ...Revision, description: 'What it has dealt with, in vain, as it last reported.' }),
    ),
    last_seen_at: Type.Optional(Timestamp),
    code: Type.Optional(ShortText('The same for the same kind of failure, such as `digest_differs`.')),
    detail: Type.Optional(Text('What prevents enforcement, for a person.')),
  },
  { ...strict, $id: 'PendingDevice', title: 'PendingDevice' },
);
export type PendingDevice = Wire<typeof PendingDevice>;

export const Convergence = Type.Object(
  {
    revision: Type.Integer({ ...Revision, description: 'The revision that was asked about.' }),
    devices: count(
      'Devices of the organization; with `since` or `change`, those whose policy changed: the sum of the counts that follow.',
    ),
    in_force: count('Devices that enforce it.'),
    behind: count('Connected, and not known to have it.'),
    failed: count('Could not put it in force, or enforce another policy.'),
    reverted: count('Put the policy before back in force.'),
    offline: count('Away, and not known to have it.'),
    never_seen: count('Have never reported.'),
    not_understood: count('Hold their last policy, because their agent does not understand it.'),
    pending: Type.Array(PendingDevice, { description: 'Every device that is not in force, by id.' }),
  },
  { ...strict, $id: 'Convergence', title: 'Convergence' },
);
export type Convergence = Wire<typeof Convergence>;

/** Seconds that an answer may be held back. */
const longestWait = 120;

export const ConvergenceQuery = Type.Object(
  {
    revision: Type.Optional(
      Type.Integer({ minimum: 0, maximum: largestRevision, description: "Absent: the organization's head." }),
    ),
    since: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: largestRevision,
        description: 'Only devices whose policy changed after this revision, up to `revision`.',
      }),
    ),
    change: Type.Optional(
      id<ChangeSetId>('A change set, in place of `revision` and `since`: only devices whose policy it changed.'),
    ),
    wait: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: longestWait,
        description: 'Seconds to hold the answer back while a device is pending.',
      }),
    ),
    limit: Type.Optional(
      Type.Integer({ minimum: 1, maximum: limits.page, description: 'Maximum number of pending devices.' }),
    ),
    after: Type.Optional(
      Type.String({
        format: 'uuid',
        description: 'Where the page before ended: take it from its `Link: rel="next"`.',
      }),
    ),
  },
  strict,
);
