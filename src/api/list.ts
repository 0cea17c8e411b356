/** Owns the query parameters of the operations, and how they are encoded. */
import { Type } from 'typebox';
import { largestRevision, limits } from './limits.ts';
import { strict } from './scalar.ts';

const page = {
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: limits.page,
      description: 'Maximum number of records; without it, the whole list.',
    }),
  ),
  after: Type.Optional(
    Type.String({
      format: 'uuid',
      description: 'Where the page before ended: take it from its `Link: rel="next"`.',
    }),
  ),
};

export const PageQuery = Type.Object(page, strict);

/** A part of the audit. */
export const AuditQuery = Type.Object(
  {
    ...page,
    since: Type.Optional(Type.String({ format: 'date-time', description: 'Only entries from this time on.' })),
    until: Type.Optional(Type.String({ format: 'date-time', description: 'Only entries up to this time.' })),
  },
  strict,
);

export const TokenPageQuery = Type.Object(
  {
    ...page,
    kind: Type.Optional(
      Type.Enum(['user', 'device'], { description: 'Only my own, or only those of my devices; without it, both.' }),
    ),
  },
  strict,
);

const revisionPage = {
  ...page,
  gt_revision: Type.Optional(
    Type.Integer({ minimum: 0, maximum: largestRevision, description: 'Only records with a greater revision.' }),
  ),
};

/** A list as it was. */
const pastPage = {
  ...revisionPage,
  at_revision: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: largestRevision,
      description: 'The records at this revision of the organization. A device token cannot use it.',
    }),
  ),
  at: Type.Optional(
    Type.String({
      format: 'date-time',
      description: 'The records at this time, instead of `at_revision`. A device token cannot use it.',
    }),
  ),
};

export const PastPageQuery = Type.Object(pastPage, strict);

export const HistoryQuery = Type.Object(
  {
    limit: page.limit,
    after: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: largestRevision,
        description:
          'Where the page before ended: take it from its `Link: rel="next"`. States below this revision follow.',
      }),
    ),
  },
  strict,
);

/** For the writes that policy tests may refuse. */
const skipTests = {
  skip_tests: Type.Optional(
    Type.Boolean({ description: 'Also where policy tests fail by it; for owners only, and in the audit.' }),
  ),
};
/** Of a write that can be previewed by itself. */
export const dryRunQuery = {
  dry_run: Type.Optional(
    Type.Boolean({
      description:
        'Judge the write and answer as it would, refusals included, and write nothing. Revisions and ids of the answer are not those of a later write.',
    }),
  ),
} as const;

export const SkipTestsQuery = Type.Object(skipTests, strict);
export const CreateDeviceQuery = Type.Object({ ...skipTests, ...dryRunQuery }, strict);

/** What makes a write a trial. */
export const trialQuery = {
  confirm_within: Type.Optional(
    Type.Integer({
      minimum: limits.trialSeconds.least,
      maximum: limits.trialSeconds.most,
      description: 'Try the change: it is taken back after so many seconds unless somebody confirms it.',
    }),
  ),
  scope: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: limits.scopeText,
      description: 'With `confirm_within`: only these devices try it, such as `label:canary,label:edge+prod`.',
    }),
  ),
};

export const WriteGroupQuery = Type.Object(
  {
    ...skipTests,
    ...trialQuery,
    force: Type.Optional(
      Type.Boolean({ description: 'Continue even if a `forbid` guardrail blocks a whole direction.' }),
    ),
  },
  strict,
);

const detach = Type.Optional(
  Type.Boolean({
    description: 'Continue even if a device is left without groups, so that the default group applies to it.',
  }),
);

export const UpdateGroupQuery = Type.Object({ ...WriteGroupQuery.properties, detach }, strict);

export const UpdateDeviceQuery = Type.Object({ ...skipTests, detach, ...trialQuery }, strict);

export const MoveDeviceQuery = Type.Object({ ...skipTests, ...dryRunQuery, detach }, strict);

/** Devices outside the scope of a trial take the change when it is kept or widened. */
export const KeepTrialQuery = Type.Object({ ...skipTests, detach }, strict);

export const DeleteGroupQuery = Type.Object(
  {
    ...skipTests,
    detach: Type.Optional(
      Type.Boolean({ description: 'Remove the group from the devices that use it, in the same transaction.' }),
    ),
  },
  strict,
);

export const RemoveUserQuery = Type.Object(
  {
    ...dryRunQuery,
    organizations: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: limits.name + 3,
        description:
          'What becomes of the organizations that the user owns alone: `delete`, or `to:USER`, the id or the username of another user, who becomes an owner and gets the devices of the user there. Without it they are in the way (409 `last_owner`).',
      }),
    ),
    detach: Type.Optional(
      Type.Boolean({
        description:
          'With `to:USER`: also where a device that is handed over is left with the default group, because its groups go with the user.',
      }),
    ),
  },
  strict,
);

export const DryRunQuery = Type.Object(dryRunQuery, strict);

export const RemoveMemberQuery = Type.Object(
  {
    ...skipTests,
    ...dryRunQuery,
    keep: Type.Optional(
      Type.Enum(['devices'], { description: "Hand the member's devices to the caller instead of deleting them." }),
    ),
    detach: Type.Optional(
      Type.Boolean({
        description:
          "With `keep`: also where taking the member's groups off a device leaves it with the default group.",
      }),
    ),
  },
  strict,
);
