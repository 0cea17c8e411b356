/** Owns the question before two groups of one owner have the same name. */
import type { SecurityGroup } from '../../api/group.ts';
import type { Confirmation } from '../components/confirm.tsx';

/** Undefined where no other group of the owner has the name. */
export function askTakenName(
  groups: Iterable<Pick<SecurityGroup, 'id' | 'group_name' | 'user_id'>>,
  {
    id,
    group_name,
    user_id,
  }: { readonly id?: string; readonly group_name: string; readonly user_id?: string | undefined },
  meId: string,
): Omit<Confirmation, 'action' | 'act'> | undefined {
  const isTaken = [...groups].some(
    (other) => other.id !== id && other.user_id === user_id && other.group_name === group_name,
  );
  if (!isTaken) return undefined;
  const owner =
    user_id === undefined
      ? 'The organization already has'
      : user_id === meId
        ? 'You already have'
        : 'Its user already has';
  return {
    title: 'Use this name twice?',
    body: `${owner} a group with the name ${group_name}. Commands then find both by id only.`,
  };
}
