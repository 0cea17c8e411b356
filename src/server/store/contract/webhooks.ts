/** Owns the interface of webhooks in the store: where alerts go, which alerts were sent, and which deliveries are pending. */
import type { AlertEvent, DeliveredEvent } from '../../../api/alerts/events.ts';
import type { OrganizationId, UserId, WebhookId } from '../../../policy/ids.ts';
import type { Actor } from './actor.ts';
import type { Page } from './page.ts';
import type { Timestamp } from './records.ts';

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

export interface Webhooks {
  create(org: OrganizationId, by: Actor, webhook: WebhookFields & { readonly secret: string }): Promise<WebhookRecord>;
  list(org: OrganizationId, page?: Page): Promise<readonly WebhookRecord[]>;
  get(org: OrganizationId, id: WebhookId): Promise<WebhookRecord>;
  /** `confirmed`: it sends again where it was paused, and is the actor's from then on. */
  update(
    org: OrganizationId,
    by: Actor,
    id: WebhookId,
    patch: Partial<WebhookFields> & { readonly confirmed?: boolean },
  ): Promise<WebhookRecord>;
  /** With what is still to be delivered to it. */
  delete(org: OrganizationId, by: Actor, id: WebhookId): Promise<WebhookRecord>;
  /** A delivery that an owner asks for; `too_often` where many were asked for lately, or wait; `webhook_paused`. */
  test(org: OrganizationId, by: Actor, id: WebhookId): Promise<DeliveryRecord>;
  /** Newest first; `after` is the last id seen. */
  deliveries(org: OrganizationId, id: WebhookId, page?: Page): Promise<readonly DeliveryRecord[]>;

  /**
   * The next webhook whose conditions were not looked at for so long; no other process gets it meanwhile. A process that names those which it
   * knows as its own gets these sooner, and so before others. `among` names the only organizations that are looked at.
   */
  claimScan(everyMs: number, own: OwnWebhooks, share: LookShare): Promise<ClaimedLook | undefined>;
  /**
   * Records the current conditions in one transaction: new ones become deliveries, ended ones are deleted. So no alert
   * is lost or sent twice. The call does nothing when a later look has already started. A condition that is no news is
   * recorded without an alert. Returns the number of new alerts.
   */
  tell(look: ClaimedLook, conditions: readonly Condition[], isNews: (condition: Condition) => boolean): Promise<number>;
  /** Deliveries that are due, each for one process at a time, in no order between organizations. */
  claimDeliveries(share: DeliveryShare, leaseMs: number): Promise<readonly ClaimedDelivery[]>;
  delivered(id: string): Promise<void>;
  /** `nextInMs` undefined: no further attempt is made. */
  failed(id: string, failure: string, nextInMs: number | undefined): Promise<void>;
}
