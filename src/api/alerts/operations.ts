/** Owns the operations on webhooks, as rows of the table of operations (reference 4.9). */
import { DryRunQuery, PageQuery } from '../list.ts';
import type { Row } from '../operation-row.ts';
import { AddWebhook, MadeWebhook, UpdateWebhook, Webhook, WebhookDelivery } from './webhook.ts';

export const webhookRows = {
  createWebhook: {
    effect: 'write',
    cost: 'fixed',
    tag: 'alerts',
    summary: 'Create a webhook for alerts',
    idempotent: 'secret',
    query: DryRunQuery,
    body: AddWebhook,
    answer: MadeWebhook,
    fails: ['limit_reached'],
  },
  listWebhooks: {
    effect: 'read',
    cost: 'fixed',
    tag: 'alerts',
    summary: 'List webhooks',
    query: PageQuery,
    answer: Webhook,
  },
  readWebhook: {
    effect: 'read',
    cost: 'fixed',
    tag: 'alerts',
    summary: 'Read a webhook, without its secret',
    answer: Webhook,
  },
  updateWebhook: {
    effect: 'write',
    cost: 'fixed',
    tag: 'alerts',
    summary: 'Change a webhook',
    query: DryRunQuery,
    body: UpdateWebhook,
    answer: Webhook,
  },
  deleteWebhook: {
    effect: 'write',
    cost: 'fixed',
    tag: 'alerts',
    summary: 'Delete a webhook',
    query: DryRunQuery,
    answer: Webhook,
  },
  testWebhook: {
    effect: 'write',
    cost: 'fixed',
    tag: 'alerts',
    summary: 'Send a test to a webhook',
    answer: WebhookDelivery,
    fails: ['conflict'],
  },
  listWebhookDeliveries: {
    effect: 'read',
    cost: 'fixed',
    tag: 'alerts',
    summary: 'List the deliveries of a webhook, newest first',
    query: PageQuery,
    answer: WebhookDelivery,
  },
} as const satisfies Readonly<Record<string, Row>>;
