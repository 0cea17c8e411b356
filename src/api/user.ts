/** Owns the wire form of users and their credentials: tokens and enrollment keys. */
import { Type } from 'typebox';
import type { DeviceId, EnrollmentKeyId, GroupId, OrganizationId, TokenId, UserId } from '../policy/ids.ts';
import { limits } from './limits.ts';
import { dryRunQuery } from './list.ts';
import {
  givenId,
  GivenLabels,
  id,
  Labels,
  Name,
  NamedOrganization,
  Revision,
  ShortText,
  strict,
  Timestamp,
  type Wire,
} from './scalar.ts';

const user = {
  id: id<UserId>('The user.'),
  username: Type.String(),
  is_administrator: Type.Optional(
    Type.Unsafe<true>(Type.Boolean({ const: true, description: 'True on a server administrator, otherwise omitted.' })),
  ),
  security_groups: Type.Optional(
    Type.Array(id<GroupId>('A security group.'), {
      description: 'Ids of the groups the user owns; omitted when empty.',
    }),
  ),
  created_at: Timestamp,
};

export const User = Type.Object(user, { ...strict, $id: 'User', title: 'User' });
export type User = Wire<typeof User>;

/** The answer to a user's removal: the user, and where that changed policy. */
export const RemovedUser = Type.Object(
  {
    ...user,
    organizations: Type.Array(
      Type.Object(
        {
          organization_id: id<OrganizationId>('The organization.'),
          revision: Type.Integer({ ...Revision, description: 'What `convergence` may be asked about.' }),
        },
        strict,
      ),
      { description: "The caller's organizations in which devices or groups went along." },
    ),
    other_organizations: Type.Integer({
      minimum: 0,
      description: 'In how many organizations, which the caller is not a member of, devices or groups went along.',
    }),
    deleted_organizations: Type.Optional(
      Type.Array(NamedOrganization, { description: 'Those that went with the user; omitted when empty.' }),
    ),
    handed_over_organizations: Type.Optional(
      Type.Array(NamedOrganization, { description: 'Those that got another owner; omitted when empty.' }),
    ),
  },
  { ...strict, $id: 'RemovedUser', title: 'RemovedUser' },
);
export type RemovedUser = Wire<typeof RemovedUser>;

/** Every kind of credential that a request may come with. */
export const CredentialKind = Type.Enum(['user_token', 'device_token', 'enrollment_key', 'access_token', 'session']);

const WhoAmICredential = Type.Object(
  {
    kind: CredentialKind,
    id: Type.Optional(Type.String({ format: 'uuid', description: 'Which one; absent for a token of a provider.' })),
    expires_at: Type.Optional(Timestamp),
  },
  { ...strict, description: 'What this request was made with.' },
);

/** Who the credential speaks for. A device token also names its device and that device's organization. */
export const WhoAmI = Type.Object(
  {
    ...user,
    device_id: Type.Optional(id<DeviceId>('Only for a device token: its device.')),
    organization_id: Type.Optional(id<OrganizationId>('Only for a device token or enrollment key: its organization.')),
    scope: Type.Optional(
      Type.Enum(['full', 'read-only'], {
        description: 'Whether the credential is refused on every write. Absent for an enrollment key.',
      }),
    ),
    credential: Type.Optional(WhoAmICredential),
  },
  { ...strict, $id: 'WhoAmI', title: 'WhoAmI' },
);
export type WhoAmI = Wire<typeof WhoAmI>;

export const AddUser = Type.Object(
  { username: Name('Unique on this server.') },
  { ...strict, $id: 'AddUser', title: 'AddUser' },
);
export type AddUser = Wire<typeof AddUser>;

const scope = Type.Enum(['full', 'read-only'], { description: 'A read-only token is refused on every write.' });

const token = {
  id: id<TokenId>('The token.'),
  kind: Type.Enum(['user', 'device']),
  user_id: id<UserId>('The user that the token acts for.'),
  device_id: Type.Optional(id<DeviceId>('Only on a device token: its device.')),
  name: Type.String(),
  scope,
  created_at: Timestamp,
  expires_at: Type.Optional(Timestamp),
  last_used_at: Type.Optional(Timestamp),
};

export const Token = Type.Object(token, { ...strict, $id: 'Token', title: 'Token' });
export type Token = Wire<typeof Token>;

export const AddToken = Type.Object(
  {
    name: Type.Optional(ShortText('What it is for.')),
    scope: Type.Optional(scope),
    expires_at: Type.Optional(Timestamp),
  },
  { ...strict, $id: 'AddToken', title: 'AddToken' },
);
export type AddToken = Wire<typeof AddToken>;

export const IssuedToken = Type.Object(
  { ...token, token: Type.String({ description: 'The secret. The server shows it only once.' }) },
  { ...strict, $id: 'IssuedToken', title: 'IssuedToken' },
);
export type IssuedToken = Wire<typeof IssuedToken>;

export const RotatedToken = Type.Object(
  {
    ...token,
    token: Type.Optional(
      Type.String({ description: 'The new secret. The server shows it only once. Absent where the device renews it.' }),
    ),
  },
  { ...strict, $id: 'RotatedToken', title: 'RotatedToken' },
);

export const RotateTokenQuery = Type.Object(
  {
    ...dryRunQuery,
    by_device: Type.Optional(
      Type.Boolean({
        description:
          'Of the token of an enrolled device: its agent makes the new secret, at once where it is connected. The present one ends when the new one is first used.',
      }),
    ),
  },
  strict,
);

const key = {
  id: id<EnrollmentKeyId>('The enrollment key.'),
  organization_id: id<OrganizationId>('The organization that its devices join.'),
  user_id: id<UserId>('The member whose devices it admits.'),
  name: Type.String(),
  uses_left: Type.Integer({ minimum: 0, description: 'How many devices it still admits.' }),
  security_groups: Type.Optional(
    Type.Array(id<GroupId>('A security group.'), { description: 'Groups that every device it admits starts with.' }),
  ),
  labels: Type.Optional(Labels('Labels that every device it admits gets; omitted when empty.')),
  created_at: Timestamp,
  expires_at: Timestamp,
};

export const EnrollmentKey = Type.Object(key, { ...strict, $id: 'EnrollmentKey', title: 'EnrollmentKey' });
export type EnrollmentKey = Wire<typeof EnrollmentKey>;

export const AddEnrollmentKey = Type.Object(
  {
    name: Type.Optional(ShortText('What it is for.')),
    uses: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: limits.enrollmentUses,
        description: 'How many devices it admits; 1 when absent.',
      }),
    ),
    expires_at: Type.Optional(
      Type.String({ format: 'date-time', description: 'When it ends; a day from now when absent.' }),
    ),
    security_groups: Type.Optional(
      Type.Array(givenId('A security group.'), {
        maxItems: limits.deviceGroups,
        uniqueItems: true,
        description: 'Groups that every device it admits starts with.',
      }),
    ),
    labels: Type.Optional(GivenLabels('Labels that every device it admits gets. Only an owner makes such a key.')),
  },
  { ...strict, $id: 'AddEnrollmentKey', title: 'AddEnrollmentKey' },
);
export type AddEnrollmentKey = Wire<typeof AddEnrollmentKey>;

export const IssuedEnrollmentKey = Type.Object(
  {
    ...key,
    key: Type.String({ description: 'The secret. The server shows it only once.' }),
    public_url: Type.Optional(
      Type.String({
        format: 'uri',
        description: 'The URL of this server for the device, if the operator configured one.',
      }),
    ),
  },
  { ...strict, $id: 'IssuedEnrollmentKey', title: 'IssuedEnrollmentKey' },
);
export type IssuedEnrollmentKey = Wire<typeof IssuedEnrollmentKey>;
