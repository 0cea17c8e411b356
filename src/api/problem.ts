/** Owns the body of a failed request: problem+json (RFC 9457). */
import { Type } from 'typebox';
import type { DeviceId, EnrollmentKeyId } from '../policy/ids.ts';
import { mostProblems } from '../policy/problem.ts';
import { allProblemCodes, errors, type ErrorCode, type RequestProblemCode } from './codes.ts';
import { PolicyTestResult } from './policy-tests/policy-test.ts';
import { id, NamedOrganization, strict, type Wire } from './scalar.ts';

const ProblemEntry = Type.Object(
  {
    pointer: Type.String({ description: 'JSON pointer into the body, or `/name` of a query parameter.' }),
    code: Type.Unsafe<RequestProblemCode>(Type.Enum(Object.keys(allProblemCodes))),
    detail: Type.String({ description: 'A sentence for a person.' }),
  },
  { ...strict, $id: 'ProblemEntry', title: 'ProblemEntry' },
);

export const ProblemBody = Type.Object(
  {
    type: Type.String({ format: 'uri-reference', description: 'Where the kind of problem is described.' }),
    title: Type.String(),
    status: Type.Integer({ minimum: 400, maximum: 599 }),
    detail: Type.String(),
    instance: Type.String({ description: 'The path that was asked for.' }),
    code: Type.Unsafe<ErrorCode>(Type.Enum(Object.keys(errors))),
    request_id: Type.String({ description: "Also in the header `X-Request-Id` and in the server's log." }),
    errors: Type.Optional(
      Type.Array(ProblemEntry, {
        maxItems: mostProblems,
        description: 'The problems found, the first of them; on 422.',
      }),
    ),
    more_errors: Type.Optional(
      Type.Integer({ minimum: 1, description: 'Number of further problems that `errors` does not list.' }),
    ),
    devices: Type.Optional(
      Type.Array(id<DeviceId>('A device.'), {
        description: 'The devices in the way; on 409 `group_in_use` and `would_open`.',
      }),
    ),
    more_devices: Type.Optional(
      Type.Integer({ minimum: 1, description: 'Number of further devices that `devices` does not list.' }),
    ),
    records: Type.Optional(
      Type.Array(Type.String({ format: 'uuid' }), {
        description: 'The groups and devices in the way; on 409 `changed_since`.',
      }),
    ),
    tests: Type.Optional(
      Type.Array(PolicyTestResult, {
        description: 'The policy tests that would fail, each with the pair and the rule; on 422 `policy_test_failed`.',
      }),
    ),
    more_tests: Type.Optional(
      Type.Integer({ minimum: 1, description: 'How many more tests would fail than `tests` tells.' }),
    ),
    trial_id: Type.Optional(
      Type.String({ format: 'uuid', description: 'The trial that must end first; on 409 `trial_pending`.' }),
    ),
    organizations: Type.Optional(
      Type.Array(NamedOrganization, {
        description: 'The organizations that the user owns alone; on 409 `last_owner` of a removal.',
      }),
    ),
    enrollment_keys: Type.Optional(
      Type.Array(id<EnrollmentKeyId>('An enrollment key.'), {
        description: 'The enrollment keys in the way; on 409 `group_in_use`.',
      }),
    ),
  },
  { ...strict, $id: 'Problem', title: 'Problem' },
);
export type ProblemBody = Wire<typeof ProblemBody>;
