/** Owns which conditions held at a webhook's last look, so that each causes one alert and none is lost. */
import { statement } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';
import { now } from '../write/stamp.ts';
import { deliveryRow, insertDeliveries } from './deliveries.ts';
import {
  webhookColumns,
  webhookRecord,
  type ClaimedLook,
  type Condition,
  type LookShare,
  type OwnWebhooks,
  type WebhookRow,
} from './webhook-row.ts';

/** Values: now, looked at before, own ones, looked at before for these, excluded organizations, and the only included ones (null: all). */
const claimScan = statement<WebhookRow & { readonly looks: number; readonly is_new: boolean }>(
  'claim_scan',
  `WITH due AS MATERIALIZED (
     SELECT w.id FROM webhooks w WHERE (w.looked_at <= $2 OR (w.id = ANY ($3::uuid[]) AND w.looked_at <= $4))
       AND w.paused_at IS NULL AND w.org_id <> ALL ($5::uuid[]) AND ($6::uuid[] IS NULL OR w.org_id = ANY ($6::uuid[]))
     ORDER BY w.looked_at LIMIT 1 FOR UPDATE SKIP LOCKED)
   UPDATE webhooks w SET looked_at = $1, looks = w.looks + 1 FROM due WHERE w.id = due.id RETURNING ${webhookColumns}, w.looks, w.is_new`,
);
/** Only the last look counts: an earlier one that comes late saw what may be over. Values: webhook, which look. No row: another came, or it is gone. */
const lockWebhook = statement<{ id: string }>(
  'lock_webhook',
  'UPDATE webhooks SET is_new = false WHERE id = $1 AND looks = $2 RETURNING id',
);

/** Values: webhook, what holds as a JSON array. Gives what is new: the position of each in the array. */
const takeConditions = statement<{ index: number }>(
  'take_conditions',
  `WITH held AS MATERIALIZED (
     SELECT c.event, c.subject_id, c.occurrence, c.index FROM json_to_recordset($2::json) AS c (event text, subject_id uuid, occurrence text, index integer)),
   ended AS (
     DELETE FROM webhook_conditions k WHERE k.webhook_id = $1
       AND NOT EXISTS (SELECT FROM held h WHERE h.event = k.event AND h.subject_id = k.subject_id)),
   told AS (
     INSERT INTO webhook_conditions AS k (webhook_id, event, subject_id, occurrence)
     SELECT $1, event, subject_id, occurrence FROM held
     ON CONFLICT (webhook_id, event, subject_id) DO UPDATE SET occurrence = excluded.occurrence WHERE k.occurrence <> excluded.occurrence
     RETURNING k.event, k.subject_id)
   SELECT h.index FROM told t JOIN held h ON h.event = t.event AND h.subject_id = t.subject_id ORDER BY h.index`,
);

/** Deliveries in one statement. */
const toldAtOnce = 250;

export function alertsIn(context: Context) {
  const { writes, transactions, clock } = context;
  return {
    /**
     * The next webhook whose conditions were not looked at for so long; no other process gets it meanwhile. A process that names those which it
     * knows as its own gets these sooner, and so before others. `among` names the only organizations that are looked at.
     */
    async claimScan(
      everyMs: number,
      own: OwnWebhooks,
      { without, among }: LookShare,
    ): Promise<ClaimedLook | undefined> {
      const before = (ms: number): string => new Date(clock() - ms).toISOString();
      const values = [now(context), before(everyMs), own.ids, before(own.everyMs), without, among ?? null];
      const [row] = await writes.run(claimScan, values);
      return row === undefined ? undefined : { ...webhookRecord(row), look: row.looks, is_new: row.is_new };
    },

    /**
     * Records the current conditions in one transaction: new ones become deliveries, ended ones are deleted. So no alert
     * is lost or sent twice. The call does nothing when a later look has already started. A condition that is no news is
     * recorded without an alert. Returns the number of new alerts.
     */
    async tell(
      webhook: ClaimedLook,
      conditions: readonly Condition[],
      isNews: (condition: Condition) => boolean,
    ): Promise<number> {
      const rows = conditions.map(({ event, subject_id, occurrence }, index) => ({
        event,
        subject_id,
        occurrence,
        index,
      }));
      return transactions.run(async (tx) => {
        if ((await tx.run(lockWebhook, [webhook.id, webhook.look])).length === 0) return 0;
        const fresh = (await tx.run(takeConditions, [webhook.id, JSON.stringify(rows)])).flatMap(({ index }) => {
          const condition = conditions[index];
          return condition === undefined || !isNews(condition) ? [] : [condition];
        });
        // In parts: a whole fleet may have new conditions, and other requests of this process run in between.
        for (let from = 0; from < fresh.length; from += toldAtOnce) {
          const deliveries = fresh
            .slice(from, from + toldAtOnce)
            .map((condition) => deliveryRow(context, webhook, condition));
          await tx.run(insertDeliveries, [JSON.stringify(deliveries)]);
        }
        return fresh.length;
      });
    },
  };
}
