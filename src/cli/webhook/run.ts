/** Owns the implementation of the webhook commands. */
import { alertEvents, type AlertEvent } from '../../api/alerts/events.ts';
import type { Webhook } from '../../api/alerts/webhook.ts';
import { find, remove as removeOne, titleOf, webhooks } from '../lookup/resource.ts';
import type { Session } from '../session/session.ts';
import { usageError } from '../terminal/exit.ts';
import { shortTime } from '../terminal/time.ts';

export interface WebhookOptions {
  readonly event?: readonly string[];
  readonly name?: string;
  readonly offlineAfter?: string;
}

function readNumber(text: string, what: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw usageError(`\`${text}\` is not ${what}`);
  return Number(text);
}

const isEvent = (text: string): text is AlertEvent => alertEvents.some((event) => event === text);

function readEvents(texts: readonly string[]): readonly AlertEvent[] {
  return texts
    .flatMap((text) => text.split(','))
    .map((text) => {
      if (isEvent(text)) return text;
      throw usageError(`\`${text}\` is not an event; use ${alertEvents.join(', ')}`);
    });
}

const bodyOf = ({ event, name, offlineAfter }: WebhookOptions) => ({
  ...(event === undefined ? {} : { events: readEvents(event) }),
  ...(name === undefined ? {} : { name }),
  ...(offlineAfter === undefined ? {} : { offline_after: readNumber(offlineAfter, 'a number of seconds') }),
});

const nameOf = (webhook: Webhook): string => titleOf(webhooks, webhook);

export async function create(session: Session, url: string, options: WebhookOptions): Promise<void> {
  const client = await session.client();
  const body = { url, events: alertEvents, ...bodyOf(options) };
  const made = await client.webhooks.create(await session.organization(), body);
  await session.printRecord(
    made,
    [
      ['webhook', nameOf(made)],
      ['id', made.id],
      ['events', made.events],
      ['secret', made.secret],
      ['', 'Save the secret now. You cannot see it again. The receiver verifies deliveries with it.'],
    ],
    made.secret,
  );
}

export async function list(session: Session): Promise<void> {
  const all = await webhooks.all(session);
  await session.printList(all, {
    none: 'There are no webhooks.',
    columns: () => [
      { head: 'NAME', text: ({ name }) => name },
      { head: 'ID', text: ({ id }) => id },
      { head: 'URL', text: ({ url }) => url },
      { head: 'EVENTS', text: ({ events }) => events.join(', ') },
      { head: 'STATE', text: ({ paused }) => (paused === undefined ? 'active' : 'paused') },
      { head: 'OFFLINE AFTER', text: ({ offline_after }) => `${offline_after} s`, align: 'right' },
    ],
  });
  for (const webhook of all.filter(({ paused }) => paused !== undefined)) {
    const why = 'is paused, because the owner who set it up is no owner any more';
    session.say(`${nameOf(webhook)} ${why}. To let it send again: ringfence webhook confirm ${webhook.id}`);
  }
}

export async function confirm(session: Session, text: string): Promise<void> {
  const client = await session.client();
  const { organization_id, id } = await find(session, webhooks, text);
  const confirmed = await client.webhooks.update(organization_id, id, { paused: false });
  await session.printRecord(confirmed, `Confirmed webhook ${nameOf(confirmed)} (${id}).`);
}

/** What people set of it: every edit gives it another time. */
const fieldsIn = ({ updated_at: _at, ...fields }: Webhook): string => JSON.stringify(fields);

export async function edit(
  session: Session,
  text: string,
  options: WebhookOptions & { readonly url?: string },
): Promise<void> {
  const client = await session.client();
  const before = await find(session, webhooks, text);
  const { organization_id, id } = before;
  const { url } = options;
  const body = { ...bodyOf(options), ...(url === undefined ? {} : { url }) };
  if (Object.keys(body).length === 0) throw usageError('nothing to change: give an option');
  const changed = await client.webhooks.update(organization_id, id, body);
  await session.printRecord(
    changed,
    fieldsIn(changed) === fieldsIn(before)
      ? 'Nothing to change: already up to date.'
      : `Changed webhook ${nameOf(changed)} (${id}).`,
  );
}

export async function test(session: Session, text: string): Promise<void> {
  const client = await session.client();
  const webhook = await find(session, webhooks, text);
  const sent = await client.webhooks.test(webhook.organization_id, webhook.id);
  const table = `Sent a test to ${nameOf(webhook)}. \`ringfence webhook deliveries\` shows the result.`;
  await session.printRecord(sent, table);
}

export async function deliveries(session: Session, text: string, options: { readonly limit: string }): Promise<void> {
  const limit = readNumber(options.limit, 'a number of deliveries');
  const client = await session.client();
  const { organization_id, id } = await find(session, webhooks, text);
  const all = await client.webhooks.deliveries(organization_id, id, { limit: Math.min(limit, 1000) });
  await session.printList(all, {
    none: 'Nothing was delivered yet.',
    columns: () => [
      { head: 'TIME', text: ({ created_at }) => shortTime(created_at) },
      { head: 'EVENT', text: ({ event }) => event },
      { head: 'STATE', text: ({ state }) => state.replace('_', ' ') },
      { head: 'ATTEMPTS', text: ({ attempts }) => String(attempts), align: 'right' },
      { head: 'LAST FAILURE', text: ({ failure = '' }) => failure.replaceAll('_', ' ') },
      { head: 'NEXT', text: ({ next_attempt_at }) => shortTime(next_attempt_at) },
    ],
  });
}

export const remove = (session: Session, text: string): Promise<void> =>
  removeOne(session, webhooks, text, {
    verb: 'Delete',
    call: async ({ organization_id, id }, options) =>
      (await session.client()).webhooks.delete(organization_id, id, options),
  });
