/** Owns the row of a webhook: the columns that are read, without the secret, and its record. */
import type { AlertEvent } from '../../../api/alerts/events.ts';
import { parseOrganizationId, parseUserId, parseWebhookId } from '../../../policy/ids.ts';
import type { WebhookRecord } from '../contract/webhooks.ts';

export interface WebhookRow {
  readonly id: string;
  readonly org_id: string;
  readonly name: string;
  readonly url: string;
  readonly events: string[];
  readonly offline_after: number;
  /** The owner who set where it sends to, or confirmed it; null where that is not known. */
  readonly set_by: string | null;
  readonly paused_at: string | null;
  readonly created_at: string;
  readonly updated_at: string;
}

export const webhookColumns =
  'w.id, w.org_id, w.name, w.url, w.events, w.offline_after, w.set_by, w.paused_at, w.created_at, w.updated_at';

export const webhookRecord = (row: WebhookRow): WebhookRecord => ({
  id: parseWebhookId(row.id),
  organization_id: parseOrganizationId(row.org_id),
  name: row.name,
  url: row.url,
  events: row.events as AlertEvent[],
  offline_after: row.offline_after,
  ...(row.paused_at !== null &&
    row.set_by !== null && {
      paused: { since: row.paused_at, reason: 'owner_ended' as const, user_id: parseUserId(row.set_by) },
    }),
  created_at: row.created_at,
  updated_at: row.updated_at,
});
