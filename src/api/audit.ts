/** Owns the wire form of the audit: who changed what, when, from where, with which credential. */
import { Type } from 'typebox';
import type { ChangeSetId, OrganizationId, UserId } from '../policy/ids.ts';
import type { SecurityGroup } from './group.ts';
import type { DevicePolicy } from './history/states.ts';
import type { Member, Organization } from './organization.ts';
import { id, Revision, strict, Timestamp, type Wire } from './scalar.ts';
import { CredentialKind } from './user.ts';

/** `server`: no request asked for it, such as the end of a trial whose time is over. */
const AuditCredentialKind = Type.Enum([...CredentialKind.enum, 'server']);

/** All fields of all records that an audit entry can show. */
export type AuditFields = Partial<
  Omit<SecurityGroup, 'id'> &
    Omit<DevicePolicy, 'id'> & { readonly id: string } & Pick<Member, 'role'> &
    Pick<Organization, 'name' | 'description'>
>;

const state = (description: string) =>
  Type.Optional(Type.Unsafe<AuditFields>(Type.Object({}, { description, additionalProperties: true })));

export const AuditEntry = Type.Object(
  {
    id: Type.String({ format: 'uuid', description: 'The entry; ids ascend with time.' }),
    at: Timestamp,
    operation: Type.String({ description: 'The operation by its name in this document, `signIn` or `signOut`.' }),
    organization_id: Type.Optional(id<OrganizationId>('Where; absent for what concerns the whole server.')),
    subject_id: Type.Optional(Type.String({ format: 'uuid', description: 'What was made, changed or ended.' })),
    revision: Type.Optional(Revision),
    unchanged: Type.Optional(
      Type.Unsafe<true>(
        Type.Boolean({ const: true, description: 'The record already had the requested values: nothing was written.' }),
      ),
    ),
    fields: Type.Optional(
      Type.Array(Type.String(), {
        description:
          'Names of the fields that the request gave, and `skip_tests` where it asked to skip policy tests; never their values.',
      }),
    ),
    user_id: id<UserId>('Who.'),
    username: Type.String(),
    credential: Type.Object(
      {
        kind: AuditCredentialKind,
        id: Type.Optional(Type.String({ format: 'uuid', description: 'Which one; absent for a token of a provider.' })),
      },
      strict,
    ),
    address: Type.String({ description: 'Where the request came from.' }),
    request_id: Type.String({ description: 'Identifies the request in the log of the server.' }),
    change_id: Type.Optional(id<ChangeSetId>('The change set that it is a part of.')),
    subject: Type.Optional(
      Type.Object(
        {
          name: Type.String({ description: 'What it was called before the write.' }),
          guardrail: Type.Optional(
            Type.Enum(['forbid', 'require'], { description: 'Of a group that is a guardrail.' }),
          ),
        },
        { ...strict, description: 'What was made, changed or ended; absent where you could not see it.' },
      ),
    ),
    before: state(
      'The fields that the write changed, with their values before it; of something deleted the whole record; absent for something new, and where you could not see it. Never a secret.',
    ),
    after: state('The same fields as the write left them; of something new the whole record; absent after a deletion.'),
  },
  { ...strict, $id: 'AuditEntry', title: 'AuditEntry' },
);
export type AuditEntry = Wire<typeof AuditEntry>;
