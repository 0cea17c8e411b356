/** Owns what holds of those who write, as it is under the organization's lock. `right.ts` judges writes of several statements in SQL by the same rules. */
import type { Caller } from '../../../organization/decide/caller.ts';
import type { Actor } from '../data/actor.ts';
import type { Runner } from '../postgres/connection.ts';
import { statement } from '../postgres/sql.ts';
import { actorsMembership, hasEnded, rightItem } from './right.ts';

/** Values: organization, callers as a JSON array. */
const readCallers = statement<Caller & { readonly place: number }>(
  'read_callers',
  `SELECT n.place, ${hasEnded('n')} AS has_ended, m.role, m.is_pending, o.user_id IS NOT NULL AS is_member,
     EXISTS (SELECT FROM security_groups f WHERE f.org_id = $1 AND f.guardrail = 'forbid' AND f.mode = 'enforce') AS forbids
   FROM json_to_recordset($2::json) AS n (place integer, actor uuid, token bytea, session uuid, whose uuid) ${actorsMembership}
   LEFT JOIN members o ON o.org_id = $1 AND o.user_id = n.whose`,
);

interface Asked {
  readonly by: Actor;
  /** Whom a new record is to belong to. */
  readonly whose?: string | undefined;
}

/** In their order. */
export async function callersOf(tx: Runner, org: string, asked: readonly Asked[]): Promise<readonly Caller[]> {
  const items = asked.map(({ by, whose = null }, place) => {
    const { token, session } = rightItem(by.right);
    return { place, actor: by.user_id, token, session, whose };
  });
  const callers: Caller[] = [];
  for (const { place, ...caller } of await tx.run(readCallers, [org, JSON.stringify(items)])) callers[place] = caller;
  return callers;
}
