/** Owns webhooks in the store: their records, written in the organization's order with an audit entry. */
import { refuse } from '../../problems.ts';
import {
  type WebhookRecord,
  type WebhookFields,
  type DeliveryRecord,
  webhookColumns,
  webhookRecord,
  type WebhookRow,
} from './webhook-row.ts';
import { inOrg, pageValues, statement } from '../postgres/sql.ts';
import { changeOf } from '../write/audit-entry.ts';
import type { Context } from '../write/context.ts';
import { countsOf } from '../write/counts.ts';
import { now } from '../write/stamp.ts';
import { inOrganization } from '../write/transaction.ts';
import { alertsIn } from './alerts.ts';
import { deliveriesIn, deliveryRow, insertDeliveries } from './deliveries.ts';
import type { OrganizationId, WebhookId } from '../../../policy/ids.ts';
import type { Actor } from '../data/actor.ts';
import type { Page } from '../data/page.ts';

/** Values: organization, after this id, limit. */
const listWebhooks = statement<WebhookRow>(
  'list_webhooks',
  `SELECT ${webhookColumns} FROM webhooks w WHERE w.org_id = $1 AND w.id > $2 ORDER BY w.id LIMIT $3`,
);
/** Values: organization, id. */
const getWebhook = statement<WebhookRow>(
  'get_webhook',
  `SELECT ${webhookColumns} FROM webhooks w WHERE w.id = $2 AND ${inOrg('w')}`,
);
/** Values: organization, id, name, URL, events, offline after, secret, now, who. */
const insertWebhook = statement<WebhookRow>(
  'insert_webhook',
  `INSERT INTO webhooks AS w (org_id, id, name, url, events, offline_after, secret, created_at, updated_at, looked_at, looks, is_new, set_by)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, '-infinity', 0, true, $9) RETURNING ${webhookColumns}`,
);
/** Values: organization, id, name, URL, events, offline after, now, since when it is paused, who set it. */
const updateWebhook = statement<never>(
  'update_webhook',
  `UPDATE webhooks w SET name = $3, url = $4, events = $5::text[], offline_after = $6, updated_at = $7, paused_at = $8, set_by = $9
   WHERE w.id = $2 AND ${inOrg('w')}`,
);
/** Values: organization, id. */
const deleteWebhook = statement<WebhookRow>(
  'delete_webhook',
  `DELETE FROM webhooks w WHERE w.id = $2 AND ${inOrg('w')} RETURNING ${webhookColumns}`,
);

/** Tests of a webhook that were asked for since then, or wait to be sent. Values: organization, webhook, since. */
const countTests = statement<{ count: number }>(
  'count_webhook_tests',
  `SELECT count(*) AS count FROM webhook_deliveries d
   WHERE d.webhook_id = $2 AND ${inOrg('d')} AND d.event = 'test' AND (d.state = 'pending' OR d.created_at > $3)`,
);
/** The most test deliveries in this time. All organizations share the delivery workers, so that too many tests would delay the others. */
const mostTests = 10;
const testSeconds = 60;

const existing = (row: WebhookRow | undefined): WebhookRow => row ?? refuse({ code: 'not_found', what: 'webhook' });
const found = (row: WebhookRow | undefined): WebhookRecord => webhookRecord(existing(row));

export function webhooksIn(context: Context) {
  const { reads } = context;
  const subject = ({ id, name }: WebhookRecord) => ({ subject_id: id, name });
  return {
    ...alertsIn(context),
    ...deliveriesIn(context),

    async list(org: OrganizationId, page?: Page): Promise<readonly WebhookRecord[]> {
      return (await reads.run(listWebhooks, [org, ...pageValues(page)])).map((row) => webhookRecord(row));
    },

    async get(org: OrganizationId, id: WebhookId): Promise<WebhookRecord> {
      return found((await reads.run(getWebhook, [org, id]))[0]);
    },

    async create(
      org: OrganizationId,
      by: Actor,
      webhook: WebhookFields & { readonly secret: string },
    ): Promise<WebhookRecord> {
      const { name, url, events, offline_after, secret } = webhook;
      return inOrganization(
        context,
        org,
        by,
        async ({ tx }) => {
          const limit = context.quotas.webhooks;
          if ((await countsOf(tx, org)).webhooks >= limit)
            return refuse({ code: 'limit_reached', what: 'webhooks', limit });
          const values = [org, context.newId(), name, url, events, offline_after, secret, now(context), by.user_id];
          return found((await tx.run(insertWebhook, values))[0]);
        },
        (made) => ({ ...subject(made), after: made }),
      );
    },

    /** `confirmed`: it sends again where it was paused, and is the actor's from then on. */
    async update(
      org: OrganizationId,
      by: Actor,
      id: WebhookId,
      { confirmed = false, ...given }: Partial<WebhookFields> & { readonly confirmed?: boolean },
    ): Promise<WebhookRecord> {
      const { after: updated } = await inOrganization(
        context,
        org,
        by,
        async ({ tx }) => {
          const row = existing((await tx.run(getWebhook, [org, id]))[0]);
          const { name = row.name, url = row.url, events = row.events, offline_after = row.offline_after } = given;
          const paused_at = confirmed ? null : row.paused_at;
          // Who says where it sends to, answers for it.
          const set_by = confirmed || (row.paused_at === null && url !== row.url) ? by.user_id : row.set_by;
          const updated_at = now(context);
          const values = [org, id, name, url, events, offline_after, updated_at, paused_at, set_by];
          await tx.run(updateWebhook, values);
          const after = { ...row, name, url, events: [...events], offline_after, updated_at, paused_at, set_by };
          return { before: webhookRecord(row), after: webhookRecord(after) };
        },
        ({ before, after }) => ({ ...subject(before), ...changeOf(before, after) }),
      );
      return updated;
    },

    /** With what is still to be delivered to it. */
    async delete(org: OrganizationId, by: Actor, id: WebhookId): Promise<WebhookRecord> {
      return inOrganization(
        context,
        org,
        by,
        async ({ tx }) => found((await tx.run(deleteWebhook, [org, id]))[0]),
        (gone) => ({ ...subject(gone), before: gone }),
      );
    },

    /** A delivery that an owner asks for; `too_often` where many were asked for lately, or wait; `webhook_paused`. */
    async test(org: OrganizationId, by: Actor, id: WebhookId): Promise<DeliveryRecord> {
      return inOrganization(
        context,
        org,
        by,
        async ({ tx }) => {
          const webhook = found((await tx.run(getWebhook, [org, id]))[0]);
          if (webhook.paused !== undefined) return refuse({ code: 'webhook_paused' });
          const since = new Date(context.clock() - testSeconds * 1_000).toISOString();
          if (((await tx.run(countTests, [org, id, since]))[0]?.count ?? 0) >= mostTests)
            return refuse({ code: 'too_often', seconds: testSeconds });
          const row = deliveryRow(context, webhook, { event: 'test', data: {} });
          await tx.run(insertDeliveries, [JSON.stringify([row])]);
          return {
            id: row.id,
            event: 'test' as const,
            state: 'pending' as const,
            attempts: 0,
            created_at: row.created_at,
            next_attempt_at: row.next_at,
            body: JSON.parse(row.body) as unknown,
          };
        },
        () => ({ subject_id: id }),
      );
    },
  };
}
