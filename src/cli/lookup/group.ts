/** Owns the finding of groups by what people call them. */
import type { SecurityGroup } from '../../api/group.ts';
import { findOne, type Named } from '../session/find-one.ts';
import type { Session } from '../session/session.ts';

export async function allGroups(session: Session): Promise<readonly SecurityGroup[]> {
  const client = await session.client();
  return client.groups.list(await session.organization(), { signal: session.signal });
}

/** `default` also means the organization's default group, unless another one is called so. */
export function groupNamer(groups: readonly SecurityGroup[]): (group: SecurityGroup) => Named {
  const taken = groups.some(({ group_name, is_default }) => group_name === 'default' && is_default !== true);
  return ({ id, group_name, is_default }) => ({
    id,
    names: is_default === true && !taken && group_name !== 'default' ? [group_name, 'default'] : [group_name],
  });
}

export const pickGroup = (groups: readonly SecurityGroup[], text: string): SecurityGroup =>
  findOne('group', text, groups, groupNamer(groups));

export async function findGroup(session: Session, text: string): Promise<SecurityGroup> {
  return pickGroup(await allGroups(session), text);
}

/** Ids of groups named in any mix of words with and without commas, each once. */
export async function groupIds(session: Session, texts: readonly string[]): Promise<readonly string[]> {
  const groups = await allGroups(session);
  const wanted = texts.flatMap((text) => text.split(',')).filter((text) => text.trim() !== '');
  return [...new Set(wanted.map((text) => pickGroup(groups, text).id))];
}
