/** Owns the wire form of the change stream: the watch request and the documents of the stream (reference 2.5, 2.6, 6). */
import { Type } from 'typebox';
import type { DeviceId, GroupId, OrganizationId } from '../policy/ids.ts';
import { Device, DeviceIdentity } from './device.ts';
import { SecurityGroup } from './group.ts';
import { watchKinds } from './kinds.ts';
import { id, Revision, strict, type Wire } from './scalar.ts';

const kind = Type.Enum([...watchKinds], { description: 'Resource kind.' });

export const WatchItem = Type.Object(
  {
    kind,
    gt_revision: Type.Optional(
      Type.Integer({
        // No maximum: any number above the organization's head is a revision that is not there, and answered as such.
        minimum: 0,
        description:
          'Only changes with a greater revision are sent, deletions included. 0 or absent: the full current set first.',
      }),
    ),
    token: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 64,
        description:
          'The token that came with the revision in `gt_revision` (`Prefer: history-tokens`). If the revision has another token by now, the answer is 410: ' +
          'the database lost a part of its history.',
      }),
    ),
    view: Type.Optional(
      Type.Enum(['full', 'identity'], {
        description:
          'Of kind `device` only. `identity`: what a device is (`id`, `hostname`, `tunnel_ip`, `addresses`, `labels`, `security_groups`), ' +
          'only when one of these changed, with the revision of that change. Absent: `full`.',
      }),
    ),
    at_tail: Type.Optional(Type.Boolean({ description: 'True: no tail event after the initial listing.' })),
  },
  { ...strict, $id: 'WatchItem', title: 'WatchItem' },
);
export type WatchItem = Wire<typeof WatchItem>;

/** One item per kind. */
export const WatchRequest = Type.Array(WatchItem, {
  minItems: 1,
  maxItems: watchKinds.length,
  $id: 'WatchRequest',
  title: 'WatchRequest',
});
export type WatchRequest = Wire<typeof WatchRequest>;

/** A group that left the reader's view: it may exist still, but is no longer to be seen. */
export const DepartedGroup = Type.Object(
  { id: id<GroupId>('The group.'), org_id: id<OrganizationId>('Its organization.'), revision: Revision },
  { ...strict, $id: 'DepartedGroup', title: 'DepartedGroup' },
);
export type DepartedGroup = Wire<typeof DepartedGroup>;

const many = Type.Optional(Type.Enum([...watchKinds], { description: 'Present when more than one kind is watched.' }));

const token = Type.Optional(
  Type.String({
    minLength: 1,
    maxLength: 64,
    description: 'With `Prefer: history-tokens`: the token of the revision. Send both to resume.',
  }),
);

/** One line of the stream. A lone line feed between documents is a heartbeat. */
export const WatchDocument = Type.Union(
  [
    Type.Object(
      { type: Type.Literal('change'), kind: many, token, value: Type.Union([Device, DeviceIdentity, SecurityGroup]) },
      strict,
    ),
    Type.Object(
      {
        type: Type.Literal('delete'),
        kind: many,
        token,
        value: Type.Union([Device, DeviceIdentity, SecurityGroup, DepartedGroup]),
      },
      strict,
    ),
    Type.Object(
      {
        type: Type.Literal('tail'),
        kind: many,
        revision: Type.Optional({
          ...Revision,
          description: 'With `Prefer: history-tokens`: everything of the kind up to this revision has been sent.',
        }),
        token,
      },
      strict,
    ),
    Type.Object(
      {
        type: Type.Literal('heartbeat'),
        revision: { ...Revision, description: 'Everything up to this revision has been sent.' },
        token,
      },
      { ...strict, description: 'With `Prefer: history-tokens`, instead of a lone line feed.' },
    ),
    Type.Object(
      {
        type: Type.Literal('report'),
        revision: { ...Revision, description: 'Everything up to this revision has been sent.' },
        token,
      },
      {
        ...strict,
        description:
          'With `Prefer: report-lines`: someone waits until this device has put everything up to the revision in force and reported it.',
      },
    ),
    Type.Object(
      {
        type: Type.Literal('complete'),
        revision: {
          ...Revision,
          description: 'Everything up to this revision has been sent, and no change is half sent.',
        },
        token,
      },
      { ...strict, description: 'With `Prefer: complete-lines`.' },
    ),
    Type.Object(
      { type: Type.Literal('end') },
      {
        ...strict,
        description: 'The last line of a stream that goes both ways (`Upgrade: ringfence-watch`) and ends properly.',
      },
    ),
  ],
  { $id: 'WatchDocument', title: 'WatchDocument' },
);
export type WatchDocument = Wire<typeof WatchDocument>;

/** The record kinds by their watch name. */
export interface Watched {
  readonly device: Device;
  readonly 'security-groups': SecurityGroup;
}
/** The same for devices by identity. A reader of these accepts full records too. */
export interface WatchedByIdentity {
  readonly device: DeviceIdentity;
  readonly 'security-groups': SecurityGroup;
}
export interface WatchedId {
  readonly device: DeviceId;
  readonly 'security-groups': GroupId;
}
