/** Owns what is refused of a group in every state of the organization, before anything is read. */
import type { Selector, StoredRule } from '../../../policy/rule.ts';
import { refuse } from '../../problems.ts';
import type { GroupOwner, NewGroup } from '../data/groups.ts';
import type { Context } from '../write/context.ts';

/** The devices that rules name as peers. */
export const devicesIn = (...lists: readonly (readonly StoredRule[] | undefined)[]): ReadonlySet<string> =>
  new Set(
    lists.flatMap((rules = []) =>
      rules.flatMap(({ peers = [] }) => peers.flatMap((peer) => ('device_id' in peer ? [peer.device_id] : []))),
    ),
  );

export function refuseApplication(
  { phase }: Pick<Context, 'phase'>,
  owner: GroupOwner,
  group: { readonly applies_to?: readonly Selector[] | undefined } & Pick<NewGroup, 'guardrail'>,
): void {
  const fields = [
    ...((group.applies_to ?? []).length > 0 ? (['applies_to'] as const) : []),
    ...(group.guardrail === undefined ? [] : (['guardrail'] as const)),
  ];
  if (fields.length === 0) return;
  if (owner !== 'organization') refuse({ code: 'application_refused', why: 'user_group', fields });
  if (phase !== 3) refuse({ code: 'application_refused', why: 'phase', fields });
}

/** Of a new group. */
export function refuseCreation(context: Pick<Context, 'phase'>, owner: GroupOwner, group: NewGroup): void {
  refuseApplication(context, owner, group);
  // reference 8 (1): the default group is the one group there is.
  if (context.phase === 1) refuse({ code: 'phase_forbids' });
}
