/** Owns deliveries in the store: one process at a time holds each, by a lease that a row lock grants. */
import type { DeliveredEvent } from '../../../api/alerts/events.ts';
import { parseOrganizationId, type OrganizationId, type WebhookId } from '../../../policy/ids.ts';
import type { Page } from '../data/page.ts';
import type { ClaimedDelivery, Condition, DeliveryRecord, DeliveryShare, WebhookRecord } from './webhook-row.ts';
import { inOrg, statement } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';
import type { Locked } from '../write/transaction.ts';
import { now, type Stamps } from '../write/stamp.ts';

interface DeliveryRow {
  readonly id: string;
  readonly event: DeliveredEvent;
  readonly state: DeliveryRecord['state'];
  readonly attempts: number;
  readonly failure: string | null;
  readonly created_at: string;
  readonly next_at: string;
  readonly body: string;
}

const columns = 'id, webhook_id, org_id, event, body, state, attempts, created_at, next_at';

/** Values: rows as a JSON array. */
export const insertDeliveries = statement<never>(
  'insert_deliveries',
  `INSERT INTO webhook_deliveries (${columns}) SELECT ${columns} FROM json_populate_recordset(NULL::webhook_deliveries, $1::json)`,
);

/** What is sent, ready: every attempt sends the same bytes. */
export function deliveryRow(
  stamps: Stamps,
  { id: webhook_id, organization_id }: Pick<WebhookRecord, 'id' | 'organization_id'>,
  { event, data }: Pick<Condition, 'data'> & { readonly event: DeliveredEvent },
) {
  const at = now(stamps);
  const body = JSON.stringify({ type: event, timestamp: at, data: { organization_id, webhook_id, ...data } });
  const id = stamps.newId();
  return {
    id,
    webhook_id,
    org_id: organization_id,
    event,
    body,
    state: 'pending',
    attempts: 0,
    created_at: at,
    next_at: at,
  };
}

/** Values: organization, webhook, before this id, limit. */
const listDeliveries = statement<DeliveryRow>(
  'list_deliveries',
  `SELECT d.id, d.event, d.state, d.attempts, d.failure, d.created_at, d.next_at, d.body FROM webhook_deliveries d
   WHERE d.webhook_id = $2 AND ${inOrg('d')} AND d.id < $3 ORDER BY d.id DESC LIMIT $4`,
);
/**
 * Values: now, end of the lease, how many, how many of each organization, excluded organizations, and the only included
 * ones (null: all). The query walks organizations one by one through the index, in random order. So a long queue of one
 * organization does not delay the others for long.
 */
const claim = statement<{
  id: string;
  org_id: string;
  url: string;
  secret: string;
  body: string;
  attempts: number;
  created_at: string;
}>(
  'claim_deliveries',
  `WITH RECURSIVE orgs AS (
     (SELECT org_id FROM webhook_deliveries WHERE state = 'pending' ORDER BY org_id LIMIT 1)
     UNION ALL
     SELECT (SELECT d.org_id FROM webhook_deliveries d WHERE d.state = 'pending' AND d.org_id > o.org_id ORDER BY d.org_id LIMIT 1)
     FROM orgs o WHERE o.org_id IS NOT NULL),
   due AS MATERIALIZED (
     SELECT next.id FROM (SELECT org_id FROM orgs WHERE org_id IS NOT NULL AND org_id <> ALL ($5::uuid[]) AND ($6::uuid[] IS NULL OR org_id = ANY ($6::uuid[])) ORDER BY random()) AS o
       CROSS JOIN LATERAL (
         SELECT d.id FROM webhook_deliveries d WHERE d.org_id = o.org_id AND d.state = 'pending' AND d.next_at <= $1
         ORDER BY d.next_at LIMIT $4 FOR UPDATE SKIP LOCKED) AS next
     LIMIT $3)
   UPDATE webhook_deliveries d SET attempts = d.attempts + 1, next_at = $2 FROM due, webhooks w
   WHERE d.id = due.id AND w.id = d.webhook_id RETURNING d.id, d.org_id, w.url, w.secret, d.body, d.attempts, d.created_at`,
);
const markDelivered = statement<never>(
  'mark_delivered',
  `UPDATE webhook_deliveries SET state = 'delivered', failure = NULL, next_at = $2 WHERE id = $1 AND state = 'pending'`,
);
/** Values: id, why, when next, and whether there is a next time. */
const markFailed = statement<never>(
  'mark_failed',
  `UPDATE webhook_deliveries SET failure = $2, next_at = $3, state = CASE WHEN $4 THEN 'pending' ELSE 'given_up' END
   WHERE id = $1 AND state = 'pending'`,
);
/** Those that wait are given up: they would name what the receiver may not know any more. Values: organization, user, now. */
const pauseWebhooks = statement<never>(
  'pause_webhooks',
  `WITH paused AS (
     UPDATE webhooks SET paused_at = $3, updated_at = $3 WHERE org_id = $1 AND set_by = $2 AND paused_at IS NULL RETURNING id)
   UPDATE webhook_deliveries d SET state = 'given_up', failure = 'paused', next_at = $3 FROM paused p
   WHERE d.webhook_id = p.id AND d.state = 'pending'`,
);

/** The webhooks that this user set up send nothing until an owner confirms them. */
export async function pauseWebhooksOf(context: Context, { tx, org }: Locked, user: string): Promise<void> {
  await tx.run(pauseWebhooks, [org, user, now(context)]);
}

const newest = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

const record = (row: DeliveryRow): DeliveryRecord => ({
  id: row.id,
  event: row.event,
  state: row.state,
  attempts: row.attempts,
  ...(row.failure === null ? {} : { failure: row.failure }),
  created_at: row.created_at,
  ...(row.state === 'pending' ? { next_attempt_at: row.next_at } : {}),
  body: JSON.parse(row.body) as unknown,
});

export function deliveriesIn(context: Context) {
  const { reads, writes, clock } = context;
  const inMs = (ms: number): string => new Date(clock() + ms).toISOString();
  return {
    /** Newest first; `after` is the last id seen. */
    async deliveries(org: OrganizationId, id: WebhookId, page?: Page): Promise<readonly DeliveryRecord[]> {
      const rows = await reads.run(listDeliveries, [org, id, page?.after ?? newest, page?.limit ?? null]);
      return rows.map((row) => record(row));
    },

    /** Deliveries that are due, each for one process at a time, in no order between organizations. */
    async claimDeliveries(share: DeliveryShare, leaseMs: number): Promise<readonly ClaimedDelivery[]> {
      const { limit, perOrganization, without, among = null } = share;
      const rows = await writes.run(claim, [now(context), inMs(leaseMs), limit, perOrganization, without, among]);
      return rows.map(({ attempts, org_id, ...delivery }) => ({
        ...delivery,
        organization_id: parseOrganizationId(org_id),
        attempt: attempts,
      }));
    },

    async delivered(id: string): Promise<void> {
      await writes.run(markDelivered, [id, now(context)]);
    },

    /** `nextInMs` undefined: no further attempt is made. */
    async failed(id: string, failure: string, nextInMs: number | undefined): Promise<void> {
      await writes.run(markFailed, [id, failure, inMs(nextInMs ?? 0), nextInMs !== undefined]);
    },
  };
}
