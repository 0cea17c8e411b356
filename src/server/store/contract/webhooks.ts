/** Owns the interface of webhooks in the store: where alerts go, what was told, and what is still to be delivered. */
import type { AlertEvent, DeliveredEvent } from '../../../api/alerts/events.ts';
import type { OrganizationId, WebhookId } from '../../../policy/ids.ts';
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
  readonly created_at: Timestamp;
  readonly updated_at: Timestamp;
}

/** Something that holds right now. Told once for each `occurrence`, and again when it went and came back. */
export interface Condition {
  readonly event: AlertEvent;
  readonly subject_id: string;
  readonly occurrence: string;
  /** What the receiver is told of it. */
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

/** A webhook to be looked at. */
export interface ClaimedLook extends WebhookRecord {
  /** Its number: the highest counts. */
  readonly look: number;
  /** Nothing was told yet. */
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
  update(org: OrganizationId, by: Actor, id: WebhookId, patch: Partial<WebhookFields>): Promise<WebhookRecord>;
  /** With what is still to be delivered to it. */
  delete(org: OrganizationId, by: Actor, id: WebhookId): Promise<WebhookRecord>;
  /** A delivery that an owner asks for; `too_often` where many were asked for lately, or wait. */
  test(org: OrganizationId, by: Actor, id: WebhookId): Promise<DeliveryRecord>;
  /** Newest first; `after` is the last id seen. */
  deliveries(org: OrganizationId, id: WebhookId, page?: Page): Promise<readonly DeliveryRecord[]>;

  /**
   * The next webhook whose conditions were not looked at for so long; no other process gets it meanwhile. A process that names those which it
   * knows as its own gets these sooner, and so before others.
   */
  claimScan(everyMs: number, own: OwnWebhooks): Promise<ClaimedLook | undefined>;
  /**
   * Takes what holds now: what was not told is to be delivered, what no longer holds is forgotten. In one transaction, so that nothing
   * is told twice or lost. A look that another one has overtaken counts for nothing. `quietly` names the events of which the first sight is no news. Gives how many are new.
   */
  tell(look: ClaimedLook, conditions: readonly Condition[], quietly: readonly AlertEvent[]): Promise<number>;
  /** Deliveries that are due, each for one process at a time, in no order between organizations. */
  claimDeliveries(share: DeliveryShare, leaseMs: number): Promise<readonly ClaimedDelivery[]>;
  delivered(id: string): Promise<void>;
  /** `nextInMs` undefined: no further attempt is made. */
  failed(id: string, failure: string, nextInMs: number | undefined): Promise<void>;
  /** Forgets deliveries that are over for so long. */
  forget(keepMs: number): Promise<void>;
}
