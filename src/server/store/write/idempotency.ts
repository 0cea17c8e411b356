/**
 * Owns idempotency keys in the database. The row is written in the transaction of the create, under the organization's
 * lock: a create and its key are there together or not at all, on every server and after every crash.
 */
import type { OrganizationId } from '../../../policy/ids.ts';
import {
  idempotencyKeyMs,
  idempotencyKeysKept,
  type IdempotencyKey,
  type IdempotencyKeys,
} from '../contract/change/idempotency.ts';
import { refuse } from '../contract/errors.ts';
import { statement, type Value } from '../postgres/sql.ts';
import type { HistoryGuard } from '../schema/history-guard.ts';
import type { Runner } from '../postgres/connection.ts';
import { openingOf } from './right.ts';
import { asTransaction, type TransactionWrite } from './run-transaction.ts';
import { now, type Stamps } from './stamp.ts';
import type { SingleStatementWrite } from './single-statement.ts';

interface AnswerRow {
  readonly fingerprint: Buffer;
  readonly answer: Buffer;
}

/** Values: organization, caller, key, and since when keys are known. */
const known = 'org_id = $1 AND caller = $2 AND key = $3 AND at > $4';

const findKey = statement<{ readonly at: string }>(
  'find_idempotency_key',
  `SELECT at FROM idempotency_keys WHERE ${known}`,
);
/** A key that is older than a day starts again. Values: organization, caller, key, now, fingerprint, answer. */
const insertKey = statement<never>(
  'insert_idempotency_key',
  `INSERT INTO idempotency_keys (org_id, caller, key, at, fingerprint, answer, is_final) VALUES ($1, $2, $3, $4, $5, $6, false)
   ON CONFLICT (org_id, caller, key) DO UPDATE SET at = EXCLUDED.at, fingerprint = EXCLUDED.fingerprint, answer = EXCLUDED.answer, is_final = false`,
);
/** A commit of its own: once it is confirmed, everything before it is durable too. */
const readAnswer = statement<AnswerRow>(
  'read_idempotency_key',
  `UPDATE idempotency_keys SET is_final = is_final OR fingerprint = $5 WHERE ${known} RETURNING fingerprint, answer`,
);
const finishAnswer = statement<AnswerRow>(
  'finish_idempotency_key',
  `UPDATE idempotency_keys SET answer = CASE WHEN is_final THEN answer ELSE $5 END, is_final = true WHERE ${known} RETURNING fingerprint, answer`,
);
const forgetOld = statement<never>('forget_idempotency_keys', 'DELETE FROM idempotency_keys WHERE at <= $1');
/** Values: how many an organization keeps. */
const forgetMany = statement<never>(
  'forget_many_idempotency_keys',
  // Materialized: a planner that does not know the table's size would look for the limit of an organization again for every key.
  `WITH full_up AS MATERIALIZED (
     SELECT o.org_id, (SELECT i.at FROM idempotency_keys i WHERE i.org_id = o.org_id ORDER BY i.at DESC OFFSET $1 LIMIT 1) AS at
     FROM (SELECT org_id FROM idempotency_keys GROUP BY org_id HAVING count(*) > $1) AS o)
   DELETE FROM idempotency_keys k USING full_up WHERE k.org_id = full_up.org_id AND k.at <= full_up.at`,
);

/** Since when keys are known. */
export const knownSince = ({ clock }: Pick<Stamps, 'clock'>): string =>
  new Date(clock() - idempotencyKeyMs).toISOString();

/** A create that records its key and its answer. Refused with `repeated` when the key is known. */
export function recordedWrite<T>(
  stamps: Pick<Stamps, 'clock'>,
  org: OrganizationId,
  given: SingleStatementWrite<T> | TransactionWrite<T>,
): SingleStatementWrite<T> | TransactionWrite<T> {
  const { idempotency } = given.by;
  if (idempotency === undefined) return given;
  const { caller, fingerprint, answerOf } = idempotency;
  const key = Buffer.from(idempotency.key);
  const write =
    given.kind === 'transaction' ? given : { ...asTransaction(org, given), opening: openingOf(given.by, now(stamps)) };
  return {
    ...write,
    async run(tx, head) {
      const [row] = await tx.run(findKey, [org, caller, key, knownSince(stamps)]);
      if (row !== undefined) return refuse({ code: 'repeated' });
      const made = await write.run(tx, head);
      const values = [Buffer.from(fingerprint), Buffer.from(answerOf(made))];
      await tx.run(insertKey, [org, caller, key, now(stamps), ...values]);
      return made;
    },
  };
}

export function idempotencyKeysIn(context: {
  readonly writes: Runner;
  readonly guard: HistoryGuard;
  readonly clock: () => number;
}): IdempotencyKeys {
  const { writes, guard } = context;
  const place = (org: OrganizationId, { caller, key }: IdempotencyKey): Value[] => [
    org,
    caller,
    Buffer.from(key),
    knownSince(context),
  ];
  return {
    async find(org, key) {
      const values = [...place(org, key), Buffer.from(key.fingerprint)];
      const [row] = await guard.whenVerified(() => writes.run(readAnswer, values));
      if (row !== undefined && !row.fingerprint.equals(key.fingerprint))
        return refuse({ code: 'idempotency_key_reused' });
      return row?.answer;
    },

    async finish(org, key, answer) {
      const values = [...place(org, key), Buffer.from(answer)];
      const [row] = await guard.whenVerified(() => writes.run(finishAnswer, values));
      // A failover may have lost the create.
      return row === undefined ? refuse({ code: 'outcome_unknown' }) : row.answer;
    },

    async forget() {
      await writes.run(forgetOld, [knownSince(context)]);
      await writes.run(forgetMany, [idempotencyKeysKept]);
    },
  };
}
