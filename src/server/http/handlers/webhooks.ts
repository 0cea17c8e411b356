/** Owns the webhook operations (reference 4.9): owners set where alerts go, within the hosts that the operator allows. */
import { pathFor } from '../../../api/paths.ts';
import { mintWebhookSecret } from '../../identity/secret.ts';
import { reachOf } from '../../limits/webhook-hosts.ts';
import type { DeliveryRecord, WebhookRecord } from '../../store/webhooks/webhook-row.ts';
import { record, type Handler, type Services } from '../call.ts';
import { invalid } from '../../problems.ts';
import { answerList } from '../request/paging.ts';

const defaultOfflineAfter = 900;

/** Refuses a URL that the server would never deliver to. Each delivery checks the addresses of its host. */
function checkUrl(text: string, { webhookHosts }: Services): void {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const problem = (code: 'not_a_url' | 'host_not_allowed', detail: string) =>
    invalid([{ pointer: '/url', code, detail }]);
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw problem('not_a_url', 'The address must be a URL like https://hooks.example.com/ringfence.');
  }
  if (url.username !== '' || url.password !== '' || url.hash !== '') {
    throw problem('not_a_url', 'The address must not contain a user name, a password or a fragment.');
  }
  if (reachOf(url, webhookHosts) !== undefined) return;
  const none = 'This server does not send webhooks: its operator must allow hosts with --webhook-hosts.';
  const other = `${url.host} is not a host that the operator of this server allows (--webhook-hosts).`;
  throw problem('host_not_allowed', webhookHosts.length === 0 ? none : other);
}

const create: Handler<'createWebhook'> = async (call, services) => {
  const { org_id } = call.params;
  const { url, events, name = '', offline_after = defaultOfflineAfter } = call.body;
  checkUrl(url, services);
  const secret = mintWebhookSecret(services.random);
  const fields = { url, events, name, offline_after, secret };
  const answerOf = (made: WebhookRecord) =>
    record({ ...made, secret }, { location: pathFor('readWebhook', { org_id, webhook_id: made.id }) });
  return answerOf(await services.store.webhooks.create(org_id, call.creator(answerOf), fields));
};

const show = { id: ({ id }: { readonly id: string }) => id, json: (row: object) => JSON.stringify(row) };

const list: Handler<'listWebhooks'> = (call, { store }) =>
  answerList<WebhookRecord>(call, (part) => store.webhooks.list(call.params.org_id, part), show);

const read: Handler<'readWebhook'> = async (call, { store }) =>
  record(await store.webhooks.get(call.params.org_id, call.params.webhook_id));

const update: Handler<'updateWebhook'> = async (call, services) => {
  const { org_id, webhook_id } = call.params;
  const { events, paused, ...fields } = call.body;
  if (paused === true) {
    const detail = 'paused can only be set to false, which confirms the webhook.';
    throw invalid([{ pointer: '/paused', code: 'not_one_of', detail }]);
  }
  if (fields.url !== undefined) checkUrl(fields.url, services);
  const patch = { ...fields, ...(events === undefined ? {} : { events }), confirmed: paused === false };
  return record(await services.store.webhooks.update(org_id, call.by, webhook_id, patch));
};

const remove: Handler<'deleteWebhook'> = async (call, { store }) =>
  record(await store.webhooks.delete(call.params.org_id, call.by, call.params.webhook_id));

const test: Handler<'testWebhook'> = async (call, { store }) =>
  record(await store.webhooks.test(call.params.org_id, call.by, call.params.webhook_id));

/** Deliveries come without end: without a limit this many come back, and a link to the rest. */
const defaultLimit = 1_000;

const listDeliveries: Handler<'listWebhookDeliveries'> = async (call, { store }) => {
  const { org_id, webhook_id } = call.params;
  await store.webhooks.get(org_id, webhook_id);
  const limited = { ...call, query: { limit: defaultLimit, ...call.query } };
  return answerList<DeliveryRecord>(limited, (part) => store.webhooks.deliveries(org_id, webhook_id, part), show);
};

export const webhookHandlers = {
  createWebhook: create,
  listWebhooks: list,
  readWebhook: read,
  updateWebhook: update,
  deleteWebhook: remove,
  testWebhook: test,
  listWebhookDeliveries: listDeliveries,
} as const;
