/** Owns the wire form of a change set: several records that are written or simulated as one (reference 4.13). */
import { Type } from 'typebox';
import type { ChangeSetId, DeviceId, GroupId, UserId } from '../../policy/ids.ts';
import { Device, UpdateDevice } from '../device.ts';
import { AddSecurityGroup, GroupWarning, SecurityGroup } from '../group.ts';
import { limits } from '../limits.ts';
import { dryRunQuery, SkipTestsQuery, trialQuery } from '../list.ts';
import { PolicyTests } from '../policy-tests/policy-test.ts';
import { givenId, id, Revision, strict, Timestamp, type Wire } from '../scalar.ts';

const { group_name, ...groupFields } = AddSecurityGroup.properties;

/** Fields of a record that a body may repeat as they are. */
const repeated = {
  revision: Type.Optional(
    Type.Integer({
      ...Revision,
      description: 'The record is changed only while this is its revision (412 otherwise).',
    }),
  ),
  created_at: Type.Optional(Timestamp),
  updated_at: Type.Optional(Timestamp),
};

const GroupChange = Type.Object(
  {
    id: Type.Optional(
      givenId(
        'A group of the organization: the entry changes it. Absent, or an id that was never used: the entry creates it.',
      ),
    ),
    group_name: Type.Optional(group_name),
    ...groupFields,
    user_id: Type.Optional(givenId('On a new group: yourself, for a group of your own.')),
    is_default: Type.Optional(Type.Boolean()),
    ...repeated,
  },
  { ...strict, $id: 'GroupChange', title: 'GroupChange' },
);

const DeviceChange = Type.Object(
  { id: givenId('A device of the organization.'), ...UpdateDevice.properties, ...repeated },
  { ...strict, $id: 'DeviceChange', title: 'DeviceChange' },
);

const most = { maxItems: limits.changeSetRecords } as const;

export const ChangeSetBody = Type.Object(
  {
    security_groups: Type.Optional(
      Type.Array(GroupChange, { ...most, description: 'Groups to change or create; fields that an entry omits stay.' }),
    ),
    devices: Type.Optional(Type.Array(DeviceChange, { ...most, description: 'Devices to change.' })),
    delete: Type.Optional(Type.Array(givenId('A group or a device.'), { ...most, description: 'Records to delete.' })),
    policy_tests: Type.Optional(PolicyTests),
    policy_tests_revision: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: Number.MAX_SAFE_INTEGER,
        description:
          'The tests are replaced only while this is their revision: the number in the `ETag` of `GET …/policy_tests` (412 otherwise).',
      }),
    ),
  },
  {
    ...strict,
    $id: 'ChangeSetBody',
    title: 'ChangeSetBody',
    description: `At most ${limits.changeSetRecords} records in all lists together. \`policy_tests\`, for owners, replace the stored ones and are no records.`,
    examples: [
      {
        security_groups: [
          {
            group_name: 'postgres',
            applies_to: [{ labels: ['database'] }],
            inbound_rules: [{ ip_protocol: 'tcp', from_port: 5_432, to_port: 5_432, peers: [{ labels: ['app'] }] }],
          },
        ],
        devices: [{ id: '018f9c3e-5b7a-7c1d-9e2f-3a4b5c6d7e8f', labels: ['database'] }],
      },
    ],
  },
);
export type ChangeSetBody = Wire<typeof ChangeSetBody>;

/** What was written. */
export const WrittenChangeSet = Type.Object(
  {
    change_id: id<ChangeSetId>('The change set: in the audit entry of each of its records, and what a revert names.'),
    revision: Type.Integer({ ...Revision, description: 'The newest revision of the organization after the change.' }),
    security_groups: Type.Array(SecurityGroup, { description: 'The groups of the body, in its order.' }),
    devices: Type.Array(Device, {
      description: 'The devices of the body, in its order, and then those that lost a deleted group.',
    }),
    deleted: Type.Array(Type.String({ format: 'uuid' }), { description: 'The records that were deleted.' }),
    warnings: Type.Array(GroupWarning, { description: 'Pointers lead into this answer.' }),
  },
  { ...strict, $id: 'WrittenChangeSet', title: 'WrittenChangeSet' },
);
export type WrittenChangeSet = Wire<typeof WrittenChangeSet>;

const ChangedRecord = Type.Object(
  {
    kind: Type.Enum(['security-groups', 'device', 'policy-tests']),
    id: Type.Unsafe<GroupId | DeviceId>(
      Type.String({ format: 'uuid', description: 'The record; of policy tests, the organization.' }),
    ),
    type: Type.Enum(['created', 'changed', 'deleted']),
    name: Type.String({ description: 'What it was called.' }),
    fields: Type.Array(Type.String(), { description: 'Of a changed record: the fields that differ.' }),
  },
  { ...strict, $id: 'ChangedRecord', title: 'ChangedRecord' },
);

/** A change set as it is remembered. */
export const ChangeSet = Type.Object(
  {
    change_id: id<ChangeSetId>('The change set.'),
    at: Timestamp,
    user_id: id<UserId>('Who made it.'),
    username: Type.String(),
    first_revision: Type.Integer({ ...Revision, description: 'The first revision that it took.' }),
    revision: Type.Integer({ ...Revision, description: 'The last revision that it took.' }),
    reverts: Type.Optional(id<ChangeSetId>('The change set that this one undid.')),
    reverted_by: Type.Optional(id<ChangeSetId>('The change set that undid this one.')),
    records: Type.Array(ChangedRecord),
  },
  { ...strict, $id: 'ChangeSet', title: 'ChangeSet' },
);
export type ChangeSet = Wire<typeof ChangeSet>;

export const ChangeSetQuery = Type.Object(
  {
    ...SkipTestsQuery.properties,
    ...trialQuery,
    detach: Type.Optional(
      Type.Boolean({
        description:
          'Also where a device is left with no group, so that the default group applies to it. Takes deleted groups off the devices that use them.',
      }),
    ),
    force: Type.Optional(
      Type.Boolean({ description: 'Also where a `forbid` guardrail leaves nothing of a direction.' }),
    ),
  },
  strict,
);

export const RevertChangeSetQuery = Type.Object(
  {
    ...SkipTestsQuery.properties,
    ...dryRunQuery,
    detach: ChangeSetQuery.properties.detach,
    force: Type.Optional(
      Type.Boolean({
        description:
          'Also where a record has changed since: those changes are lost. Records that cannot come back are left out. Also where a `forbid` guardrail leaves nothing of a direction.',
      }),
    ),
  },
  strict,
);
