/** Owns what holds of those who write, as it is under the organization's lock, and the judgement of their rights by it. */
import { holdRight, rightRoles, type Caller } from '../../../organization/decide/caller.ts';
import type { Actor, RightSubject } from '../data/actor.ts';
import { refuse } from '../../problems.ts';
import type { Runner } from '../postgres/connection.ts';
import { found, inOrg, statement } from '../postgres/sql.ts';
import type { CallerRow, Known } from './known.ts';
import type { Records } from './records/records.ts';
import { checkTime, hasEnded, rightItem } from './right.ts';
import { now, type Stamps } from './stamp.ts';

/** The write itself takes one of the key's uses, and is refused when none is left. */
const isGoodKey = found('enrollment_keys k', `k.id = n.key AND ${inOrg('k')} AND k.expires_at > n.at`);

/** Values: organization, callers as a JSON array. */
const readCallers = statement<CallerRow & { readonly place: number }>(
  'read_callers',
  `SELECT n.place, ${hasEnded('n')} OR (n.key IS NOT NULL AND NOT ${isGoodKey}) AS has_ended, m.role, m.is_pending,
     o.user_id IS NOT NULL AS is_member, ${found('users u', 'u.id = n.administrator AND u.is_admin AND u.removed_at IS NULL')} AS is_administrator,
     (SELECT s.user_id FROM enrollment_keys s WHERE s.id = n.subject AND ${inOrg('s')}) AS key_user,
     EXISTS (SELECT FROM security_groups f WHERE f.org_id = $1 AND f.guardrail = 'forbid' AND f.mode = 'enforce') AS forbids
   FROM heads h CROSS JOIN json_to_recordset($2::json)
     AS n (place integer, actor uuid, token bytea, session uuid, key uuid, at timestamptz, administrator uuid, subject uuid, whose uuid)
   LEFT JOIN members m ON m.org_id = $1 AND m.user_id = n.actor LEFT JOIN members o ON o.org_id = $1 AND o.user_id = n.whose
   WHERE h.org_id = $1`,
);

export interface Asked {
  readonly by: Actor;
  /** Whom a new record is to belong to. */
  readonly whose?: string | undefined;
}

/** What answers to `callersOf` are known by. Whether the credential has ended is no part of it. */
export const callerKey = ({ by, whose = '' }: Asked): string => `${by.user_id} ${whose}`;

/** The credentials that writes are made with, each once, as a JSON array for the statement that appends. */
export function credentialsOf(asked: readonly Asked[]): string {
  const credentials = new Map<string, object>();
  for (const { by } of asked) {
    const { token, session } = rightItem(by.right);
    if (token !== null || session !== null) credentials.set(token ?? session ?? '', { token, session });
  }
  return JSON.stringify([...credentials.values()]);
}

/** In their order; none where the organization is gone. Whether the time of a credential is over is not among it: `checkTime`. */
export async function callersOf(
  tx: Runner,
  org: string,
  at: string,
  asked: readonly Asked[],
): Promise<readonly CallerRow[]> {
  if (asked.length === 0) return [];
  const items = asked.map(({ by: { user_id: actor, right }, whose = null }, place) => {
    const { credential, subject, roles } = right;
    const administrator = (roles & rightRoles.administrator) === 0 ? null : (right.user_id ?? null);
    const { token, session } = rightItem(right);
    const key = credential.kind === 'enrollment_key' ? credential.id : null;
    const named = subject?.kind === 'enrollment_key' ? subject.id : null;
    return { place, actor, token, session, key, at, administrator, subject: named, whose };
  });
  const callers: CallerRow[] = [];
  for (const { place, ...caller } of await tx.run(readCallers, [org, JSON.stringify(items)])) callers[place] = caller;
  return callers;
}

interface RightPlace {
  readonly tx: Runner;
  readonly org: string;
  readonly records: Records;
  readonly known?: Known | undefined;
}

interface HeldRight {
  readonly caller: Caller;
  /** The write takes the role of an owner that its actor has not accepted. */
  readonly accepts: boolean;
}

/** Refuses unless the right of a write holds now, which may do more than one record needs. */
export async function heldRight(
  stamps: Pick<Stamps, 'clock'>,
  { tx, org, records, known }: RightPlace,
  by: Actor,
): Promise<HeldRight> {
  const { subject } = by.right;
  const at = now(stamps);
  checkTime(by.right, at);
  const before = known?.callers.get(callerKey({ by }));
  const [[caller]] = await Promise.all([
    before === undefined ? callersOf(tx, org, at, [{ by }]) : [before],
    records.load({
      groups: subject?.kind === 'group' ? [subject.id] : [],
      devices: subject?.kind === 'device' ? [subject.id] : [],
    }),
  ]);
  if (caller === undefined) return refuse({ code: 'not_found', what: 'organization' });
  if (before === undefined) known?.callers.set(callerKey({ by }), { ...caller, has_ended: false });
  const ownerOf = ({ kind, id }: RightSubject): string | null | undefined => {
    if (kind === 'user') return id;
    if (kind === 'enrollment_key') return caller.key_user ?? undefined;
    return (kind === 'device' ? records.device(id) : kind === 'group' ? records.group(id) : { owner: null })?.owner;
  };
  const accepts = holdRight(by, caller, subject === undefined ? null : ownerOf(subject));
  const isOwnMembership = subject?.kind === 'user' && subject.id === by.user_id;
  return { caller, accepts: accepts && !isOwnMembership };
}
