/** Owns the branded identifiers: a string becomes an id only through its one parser here. */

declare const brand: unique symbol;
type Id<Name extends string> = string & { readonly [brand]: Name };

export type OrganizationId = Id<'OrganizationId'>;
export type UserId = Id<'UserId'>;
export type GroupId = Id<'GroupId'>;
export type DeviceId = Id<'DeviceId'>;
export type TokenId = Id<'TokenId'>;
export type EnrollmentKeyId = Id<'EnrollmentKeyId'>;
export type InvitationId = Id<'InvitationId'>;
export type WebhookId = Id<'WebhookId'>;
export type ChangeSetId = Id<'ChangeSetId'>;
export type TrialId = Id<'TrialId'>;

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Thrown by the parsers below: the text is no UUID. */
export class NotAnId extends Error {
  readonly code = 'not_an_id';
  constructor(what: string, text: unknown) {
    super(`${what} must be a UUID, got ${JSON.stringify(text)?.slice(0, 80)}`);
  }
}

function idParser<T extends Id<string>>(what: string): (text: unknown) => T {
  return (text) => {
    const lower = typeof text === 'string' ? text.toLowerCase() : '';
    if (!uuid.test(lower)) throw new NotAnId(what, text);
    return lower as T;
  };
}

export const isUuid = (text: unknown): text is string => typeof text === 'string' && uuid.test(text.toLowerCase());

const versioned = /^.{14}[1-8].{4}[89ab]/;

/** The ids with this beginning mean something to the program itself. No record gets one. */
const reserved = 'ffffffff-ffff-8fff-bfff-';
export const reservedId = (number: number): string => `${reserved}${String(number).padStart(12, '0')}`;

/** A UUID that a record may get: of a version of RFC 9562, and none that the program uses for itself. The nil UUID, with which pages of a list begin, is none. */
export function isVersionedUuid(text: string): boolean {
  const id = text.toLowerCase();
  return isUuid(id) && versioned.test(id) && !id.startsWith(reserved);
}

export const parseOrganizationId = idParser<OrganizationId>('an organization id');
export const parseUserId = idParser<UserId>('a user id');
export const parseGroupId = idParser<GroupId>('a security group id');
export const parseDeviceId = idParser<DeviceId>('a device id');
export const parseTokenId = idParser<TokenId>('a token id');
export const parseEnrollmentKeyId = idParser<EnrollmentKeyId>('an enrollment key id');
export const parseInvitationId = idParser<InvitationId>('an invitation id');
export const parseWebhookId = idParser<WebhookId>('a webhook id');
export const parseChangeSetId = idParser<ChangeSetId>('a change set id');
export const parseTrialId = idParser<TrialId>('a trial id');
