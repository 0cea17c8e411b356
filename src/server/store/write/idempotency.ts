/**
 * Owns idempotency keys in the database. The row is written in the transaction of the create: a create and its key are
 * there together or not at all, on every server and after every crash.
 */
import {
  idempotencyKeyMs,
  idempotencyKeysKept,
  type IdempotencyKey,
  type IdempotentWrite,
} from '../data/idempotency.ts';
import { refuse } from '../../problems.ts';
import { statement, type Value } from '../postgres/sql.ts';
import type { HistoryGuard } from '../schema/history-guard.ts';
import type { Runner } from '../postgres/connection.ts';
import type { TransactionWrite } from './run-transaction.ts';
import { now, type Stamps } from './stamp.ts';

interface AnswerRow {
  readonly fingerprint: Buffer;
  readonly answer: Buffer;
}

/** Values: place, caller, key, and since when keys are known. The column of the place is named after most of them. */
const known = 'org_id = $1 AND caller = $2 AND key = $3 AND at > $4';

/**
 * Waits for a transaction that has the same key in hand. A key that is older than a day starts again. No row: the key is known. Values: place, caller,
 * key, since when keys are known, now, fingerprint.
 */
const claimKey = statement<{ readonly at: string }>(
  'claim_idempotency_key',
  `INSERT INTO idempotency_keys AS k (org_id, caller, key, at, fingerprint, answer, is_final) VALUES ($1, $2, $3, $5, $6, '', false)
   ON CONFLICT (org_id, caller, key) DO UPDATE SET at = EXCLUDED.at, fingerprint = EXCLUDED.fingerprint, answer = '', is_final = false
   WHERE k.at <= $4 RETURNING at`,
);
const recordAnswer = statement<never>(
  'record_idempotent_answer',
  `UPDATE idempotency_keys SET answer = $5 WHERE ${known}`,
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
/** The user to whom a key counts: its own, or that of the enrollment key that is its caller. Keys of callers that are gone, whose requests are refused, count together. */
const keyOwner = `(SELECT u.id FROM users u WHERE u.id = i.caller UNION ALL SELECT e.user_id FROM enrollment_keys e WHERE e.id = i.caller LIMIT 1)`;
/** Of a place that has too many: the newest of each user in turns, so that nobody's keys push out those of others who have fewer. Values: how many are kept of a place. */
const forgetMany = statement<never>(
  'forget_many_idempotency_keys',
  `WITH full_up AS MATERIALIZED (
     SELECT o.org_id FROM idempotency_keys o GROUP BY o.org_id HAVING count(*) > $1),
   owned AS (
     SELECT i.org_id, i.caller, i.key, i.at, ${keyOwner} AS owner FROM full_up JOIN idempotency_keys i USING (org_id)),
   turns AS (
     SELECT *, row_number() OVER (PARTITION BY org_id, owner ORDER BY at DESC) AS turn FROM owned),
   placed AS (
     SELECT *, row_number() OVER (PARTITION BY org_id ORDER BY owner IS NULL, turn, at DESC) AS place FROM turns)
   DELETE FROM idempotency_keys k USING placed p WHERE p.place > $1 AND k.org_id = p.org_id AND k.caller = p.caller AND k.key = p.key`,
);

/** Since when keys are known. */
export const knownSince = ({ clock }: Pick<Stamps, 'clock'>): string =>
  new Date(clock() - idempotencyKeyMs).toISOString();

const placeValues = (stamps: Pick<Stamps, 'clock'>, { place, caller, key }: IdempotencyKey): Value[] => [
  place,
  caller,
  Buffer.from(key),
  knownSince(stamps),
];

/** Runs a create in its transaction, and records its key and its answer there. Refused with `repeated` when the key is known. */
export async function recorded<T>(
  stamps: Pick<Stamps, 'clock'>,
  tx: Runner,
  idempotency: IdempotentWrite | undefined,
  work: () => Promise<T>,
): Promise<T> {
  if (idempotency === undefined) return work();
  const place = placeValues(stamps, idempotency);
  const claimed = await tx.run(claimKey, [...place, now(stamps), Buffer.from(idempotency.fingerprint)]);
  if (claimed.length === 0) return refuse({ code: 'repeated' });
  const made = await work();
  await tx.run(recordAnswer, [...place, Buffer.from(idempotency.answerOf(made))]);
  return made;
}

/** A write of an organization that is recorded where its request has a key. */
export const recordedWrite = <T>(stamps: Pick<Stamps, 'clock'>, write: TransactionWrite<T>): TransactionWrite<T> => ({
  ...write,
  onlyReads: false,
  run: (locked) => recorded(stamps, locked.tx, write.by.idempotency, () => write.run(locked)),
});

export function idempotencyKeysIn(context: {
  readonly writes: Runner;
  readonly guard: HistoryGuard;
  readonly clock: () => number;
}) {
  const { writes, guard } = context;
  return {
    /**
     * The answer that was recorded with the key in the last day, or undefined. From then on the answer is final. It is
     * durable: a create whose outcome was unknown is confirmed first. Fails with `idempotency_key_reused` when the
     * recorded request asked for something else.
     */
    async find(key: IdempotencyKey): Promise<Uint8Array | undefined> {
      const values = [...placeValues(context, key), Buffer.from(key.fingerprint)];
      const [row] = await guard.whenVerified(() => writes.run(readAnswer, values));
      if (row !== undefined && !row.fingerprint.equals(key.fingerprint))
        return refuse({ code: 'idempotency_key_reused' });
      return row?.answer;
    },

    /** Replaces the recorded answer unless it is final, and returns the one that is final now. */
    async finish(key: IdempotencyKey, answer: Uint8Array): Promise<Uint8Array> {
      const values = [...placeValues(context, key), Buffer.from(answer)];
      const [row] = await guard.whenVerified(() => writes.run(finishAnswer, values));
      // A failover may have lost the create.
      return row === undefined ? refuse({ code: 'outcome_unknown' }) : row.answer;
    },

    /** Deletes, of a place that has too many keys, the oldest of those users who have the most. */
    async forget(): Promise<void> {
      await writes.run(forgetMany, [idempotencyKeysKept]);
    },
  };
}
