/** Owns the row of a webhook: the columns that are read, without the secret, and its record. */
import type { Timestamp } from '../../../organization/decide/records.ts';
import type { AlertEvent, DeliveredEvent } from '../../../api/alerts/events.ts';
import {
  parseOrganizationId,
  parseUserId,
  parseWebhookId,
  type OrganizationId,
  type UserId,
  type WebhookId,
} from '../../../policy/ids.ts';

export interface WebhookFields {
  readonly name: string;
  readonly url: string;
  readonly events: readonly AlertEvent[];
  /** Seconds. */
  readonly offline_after: number;
}

export interface WebhookRecord extends WebhookFields {
  readonly id: WebhookId;
  readonly organization_id: OrganizationId;
  /** It sends nothing: the owner who set it up is no owner any more, and no other one has confirmed it. */
  readonly paused?: { readonly since: Timestamp; readonly reason: 'owner_ended'; readonly user_id: UserId };
  readonly created_at: Timestamp;
  readonly updated_at: Timestamp;
}

/** A condition that is true right now. It causes one alert for each `occurrence`, and another when it ends and returns. */
export interface Condition {
  readonly event: AlertEvent;
  readonly subject_id: string;
  readonly occurrence: string;
  /** When it happened, of what does not last and has a time. */
  readonly at?: Timestamp | undefined;
  /** What the alert says about it. */
  readonly data: Readonly<Record<string, unknown>>;
}

export interface DeliveryRecord {
  readonly id: string;
  readonly event: DeliveredEvent;
  readonly state: 'pending' | 'delivered' | 'given_up';
  readonly attempts: number;
  readonly failure?: string;
  readonly created_at: Timestamp;
  readonly next_attempt_at?: Timestamp;
  readonly body: unknown;
}

/** A delivery that this process alone has in hand, until its lease is over. */
export interface ClaimedDelivery {
  readonly id: string;
  readonly organization_id: OrganizationId;
  readonly url: string;
  readonly secret: string;
  readonly body: string;
  /** This attempt's number, from 1. */
  readonly attempt: number;
  readonly created_at: Timestamp;
}

/** How many deliveries a process takes: of all, and of each organization but those that get none; `among` names the only ones that get any. */
export interface DeliveryShare {
  readonly limit: number;
  readonly perOrganization: number;
  readonly without: readonly OrganizationId[];
  readonly among?: readonly OrganizationId[];
}

/** The organizations that a process looks at. */
export type LookShare = Pick<DeliveryShare, 'without' | 'among'>;

/** A webhook to be looked at. */
export interface ClaimedLook extends WebhookRecord {
  /** Its number: the highest counts. */
  readonly look: number;
  /** No look has recorded conditions for this webhook yet. */
  readonly is_new: boolean;
}

/** Webhooks of whose organizations a process has the state at hand. */
export interface OwnWebhooks {
  readonly ids: readonly WebhookId[];
  readonly everyMs: number;
}

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
