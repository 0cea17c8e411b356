/** Owns the wire form of webhooks: where alerts go, and the result of each delivery (reference 4.9). */
import { Type } from 'typebox';
import { alertEvents } from './events.ts';
import type { OrganizationId, UserId, WebhookId } from '../../policy/ids.ts';
import { id, ShortText, strict, Timestamp, type Wire } from '../scalar.ts';

const events = Type.Array(Type.Enum([...alertEvents]), {
  minItems: 1,
  maxItems: alertEvents.length,
  uniqueItems: true,
  description: 'The event.',
});

const shortestOffline = 600;
const offlineAfter = Type.Integer({
  minimum: shortestOffline,
  maximum: 31_536_000,
  description: 'Seconds without a stream or a report after which the server sends `device.offline`; 900 when absent.',
});
const url = Type.String({
  minLength: 1,
  maxLength: 2_000,
  description: 'Where alerts are sent by POST; its host must be one that the operator of the server allows.',
});

export const Webhook = Type.Object(
  {
    id: id<WebhookId>('The webhook.'),
    organization_id: id<OrganizationId>('The organization that the alerts are about.'),
    name: Type.String(),
    url: Type.String(),
    events: Type.Array(Type.Enum([...alertEvents])),
    offline_after: Type.Integer(),
    paused: Type.Optional(
      Type.Object(
        {
          since: Timestamp,
          reason: Type.Enum(['owner_ended'], { description: 'The owner who set it up is no owner any more.' }),
          user_id: id<UserId>('Who set it up.'),
        },
        {
          ...strict,
          description: 'It sends nothing until an owner confirms it by `paused: false`; otherwise omitted.',
        },
      ),
    ),
    created_at: Timestamp,
    updated_at: Timestamp,
  },
  { ...strict, $id: 'Webhook', title: 'Webhook' },
);
export type Webhook = Wire<typeof Webhook>;

/** The answer to a creation: the record, and the secret this one time. */
export const MadeWebhook = Type.Object(
  {
    ...Webhook.properties,
    secret: Type.String({ description: 'The secret that signs deliveries. The server shows it only once.' }),
  },
  { ...strict, $id: 'MadeWebhook', title: 'MadeWebhook' },
);
export type MadeWebhook = Wire<typeof MadeWebhook>;

export const AddWebhook = Type.Object(
  {
    url,
    events,
    name: Type.Optional(ShortText('A name for the webhook; may be empty.')),
    offline_after: Type.Optional(offlineAfter),
  },
  { ...strict, $id: 'AddWebhook', title: 'AddWebhook' },
);
export type AddWebhook = Wire<typeof AddWebhook>;

export const UpdateWebhook = Type.Object(
  {
    url: Type.Optional(url),
    events: Type.Optional(events),
    name: Type.Optional(ShortText('A name for the webhook; may be empty.')),
    offline_after: Type.Optional(offlineAfter),
    paused: Type.Optional(
      Type.Boolean({ description: 'Only `false`: confirms the webhook, which sends again if it was paused.' }),
    ),
  },
  { ...strict, $id: 'UpdateWebhook', title: 'UpdateWebhook' },
);
export type UpdateWebhook = Wire<typeof UpdateWebhook>;

/** What is posted to a webhook's URL. */
const Alert = Type.Object(
  {
    type: Type.Enum([...alertEvents, 'test']),
    timestamp: Timestamp,
    data: Type.Object(
      {
        organization_id: id<OrganizationId>('Where it happened.'),
        webhook_id: id<WebhookId>('The webhook that this goes to.'),
      },
      { additionalProperties: true, description: 'With what the event is about, such as `device_id`.' },
    ),
  },
  { ...strict, $id: 'Alert', title: 'Alert' },
);

export const WebhookDelivery = Type.Object(
  {
    id: Type.String({ format: 'uuid', description: 'The same in every attempt, as `webhook-id`.' }),
    event: Type.Enum([...alertEvents, 'test']),
    state: Type.Enum(['pending', 'delivered', 'given_up']),
    attempts: Type.Integer({ minimum: 0 }),
    failure: Type.Optional(Type.String({ description: 'Why the last attempt failed.' })),
    created_at: Timestamp,
    next_attempt_at: Type.Optional(Timestamp),
    body: Type.Unsafe<unknown>({ ...Alert, description: 'What is sent.' }),
  },
  { ...strict, $id: 'WebhookDelivery', title: 'WebhookDelivery' },
);
export type WebhookDelivery = Wire<typeof WebhookDelivery>;
