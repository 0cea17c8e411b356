/** Owns the refusal to delete an isolated device. Deletion would end its isolation, so only owners may do it (reference 1.5). */
import { rightRoles, type Actor } from '../data/actor.ts';
import { refuse } from '../../problems.ts';
import type { Runner } from '../postgres/connection.ts';
import type { Value } from '../postgres/sql.ts';
import { findIsolated } from './statements.ts';

/** In a transaction. `which`: organization, device or null, user or null. An administrator of the server removes a user with all devices. */
export async function refuseIsolated(tx: Runner, { user_id, right }: Actor, which: readonly Value[]): Promise<void> {
  if ((right.roles & (rightRoles.administrator | rightRoles.server)) !== 0) return;
  const [isolated] = await tx.run(findIsolated, [...which, user_id]);
  if (isolated !== undefined) refuse({ code: 'isolated_by_owner' });
}
