/** Owns the lookup of groups by name or id. */
import type { SecurityGroup } from '../../api/group.ts';
import { type NamedThing } from '../../client/words/naming.ts';
import { findOne, namedLine } from '../session/find-one.ts';
import type { Session } from '../session/session.ts';
import { usageError } from '../terminal/exit.ts';
import { printable } from '../../policy/names/printable.ts';
import type { PastQuery } from './past.ts';

export async function allGroups(session: Session, past: PastQuery = {}): Promise<readonly SecurityGroup[]> {
  const client = await session.client();
  return client.groups.list(await session.organization(), past);
}

/** `default` also means the organization's default group: where another group is called so, the word is ambiguous. */
export const namesOfGroup = ({ id, group_name, is_default, user_id }: SecurityGroup): NamedThing => ({
  id,
  names: is_default === true && group_name !== 'default' ? [group_name, 'default'] : [group_name],
  note: user_id === undefined ? 'group of the organization' : `group of user ${user_id}`,
});

export const pickGroup = (groups: readonly SecurityGroup[], text: string): SecurityGroup =>
  findOne('group', text, groups, namesOfGroup);

export async function findGroup(session: Session, text: string): Promise<SecurityGroup> {
  return pickGroup(await allGroups(session), text);
}

/** Ids of groups named in any mix of words with and without commas, each once. */
export async function groupIds(session: Session, texts: readonly string[]): Promise<readonly string[]> {
  const groups = await allGroups(session);
  const wanted = texts.flatMap((text) => splitNames(groups, text)).filter((text) => text.trim() !== '');
  return [...new Set(wanted.map((text) => pickGroup(groups, text).id))];
}

/** A comma separates names; a group whose name has one is named by its id. */
function splitNames(groups: readonly SecurityGroup[], text: string): readonly string[] {
  const same = text.includes(',') ? groups.filter(({ group_name }) => group_name === text.trim()) : [];
  if (same.length === 0) return text.split(',');
  throw usageError(
    `${printable(text)} is ambiguous: it is the name of one group and also a list of names; use ids:`,
    same.map((group) => namedLine(namesOfGroup(group))),
  );
}
