/** Owns what is the same for every kind of record that a plain noun is about: who may see which, and how one is found by a word. */
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import type { EnrollmentKey, Token, User } from '../../api/user.ts';
import type { Invitation, Member, Organization } from '../../api/organization.ts';
import type { Webhook } from '../../api/alerts/webhook.ts';
import { RingfenceError } from '../../client/error.ts';
import { wordsFor, type NamedThing } from '../../client/words/naming.ts';
import { findOne } from '../session/find-one.ts';
import type { Session } from '../session/session.ts';
import { CliError } from '../terminal/exit.ts';
import { allDevices, deviceName, namesOfDevice } from './device.ts';
import { allGroups, namesOfGroup } from './group.ts';

export interface Resource<T> {
  /** What one of them is called in messages. */
  readonly what: string;
  /** All that this person may see. */
  readonly all: (session: Session) => Promise<readonly T[]>;
  /** By what commands find one; its first name is what messages call it. */
  readonly naming: (record: T) => NamedThing;
}

/** A token, with the name of its device where that is in the organization of this person. */
export interface NamedToken extends Token {
  readonly device?: string;
}

async function allTokens(session: Session): Promise<readonly NamedToken[]> {
  const tokens = await (await session.client()).tokens.list();
  if (tokens.every(({ device_id }) => device_id === undefined)) return tokens;
  // Who is in several organizations, or in none, has to name one; the tokens are listed all the same.
  const devices = await allDevices(session).catch((error: unknown) => {
    if (error instanceof CliError || error instanceof RingfenceError) return [];
    throw error;
  });
  const names = new Map<string, string>(devices.map((device) => [device.id, deviceName(device)]));
  return tokens.map((token) => {
    const device = names.get(token.device_id ?? '');
    return device === undefined ? token : { ...token, device };
  });
}

export const tokens: Resource<NamedToken> = {
  what: 'token',
  all: allTokens,
  naming: ({ id, name, device = '' }) => ({ id, names: [name, device] }),
};

export const devices: Resource<Device> = { what: 'device', all: allDevices, naming: namesOfDevice };
export const groups: Resource<SecurityGroup> = { what: 'group', all: allGroups, naming: namesOfGroup };

export const users: Resource<User> = {
  what: 'user',
  all: async (session) => (await session.client()).users.list(),
  naming: ({ id, username }) => ({ id, names: [username] }),
};

export const organizations: Resource<Organization> = {
  what: 'organization',
  all: async (session) => (await session.client()).organizations.list(),
  naming: ({ id, name }) => ({ id, names: [name] }),
};

export const members: Resource<Member> = {
  what: 'member',
  all: async (session) => (await session.client()).members.list(await session.organization()),
  naming: ({ user_id, username }) => ({ id: user_id, names: [username] }),
};

export const invitations: Resource<Invitation> = {
  what: 'invitation',
  all: async (session) => (await session.client()).invitations.list(await session.organization()),
  naming: ({ id, email, username = '' }) => ({ id, names: [email ?? username] }),
};

export const keys: Resource<EnrollmentKey> = {
  what: 'enrollment key',
  all: async (session) => (await session.client()).enrollmentKeys.list(await session.organization()),
  naming: ({ id, name }) => ({ id, names: [name] }),
};

export const webhooks: Resource<Webhook> = {
  what: 'webhook',
  all: async (session) => (await session.client()).webhooks.list(await session.organization()),
  naming: ({ id, name, url }) => ({ id, names: name === '' ? [url] : [name, url] }),
};

/** The one that the word means. */
export const find = async <T>(session: Session, { what, all, naming }: Resource<T>, text: string): Promise<T> =>
  findOne(what, text, await all(session), naming);

/** What messages call it. */
export function titleOf<T>({ naming }: Resource<T>, record: T): string {
  const { id, names } = naming(record);
  return names[0] || id;
}

/** The words by which commands find them. */
export async function wordsOf<T>(session: Session, { all, naming }: Resource<T>): Promise<readonly string[]> {
  const records = await all(session);
  return records.map(wordsFor(records, naming));
}

/** Returns a user's name by id. A user who is no longer a member stays an id. Output for programs needs no names. */
export async function userNames(session: Session): Promise<(userId: string) => string> {
  if (!session.isForPeople) return (userId) => userId;
  try {
    const names = new Map<string, string>(
      (await members.all(session)).map(({ user_id, username }) => [user_id, username]),
    );
    return (userId) => names.get(userId) ?? userId;
  } catch (error) {
    // Who may see the thing and not the members reads an id.
    if (error instanceof RingfenceError && error.status === 403) return (userId) => userId;
    throw error;
  }
}
