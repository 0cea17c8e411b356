/** Owns the commands about webhooks: where alerts go. */
import { alertEvents, type AlertEvent } from '../../api/alerts/events.ts';
import type { Webhook } from '../../api/alerts/webhook.ts';
import { find, titleOf, webhooks } from '../lookup/resource.ts';
import type { Session } from '../session/session.ts';
import { usageError } from '../terminal/exit.ts';
import { shortTime } from '../terminal/time.ts';
import type { Invocation, OptionText, PlainNoun } from '../command-line/client-command.ts';
import { deletionOf } from './noun.ts';

const fieldOptions: readonly OptionText[] = [
  {
    flags: '--event <event>',
    help: 'device.failed, device.reverted, device.drift_repaired, device.offline, enrollment_key.expiring, policy_test.failing, rule.expiring, trial.started, trial.confirmed, trial.reverted or trial.expired (default: all)',
    repeats: true,
  },
  { flags: '--name <name>', help: 'a name for the webhook' },
  {
    flags: '--offline-after <seconds>',
    help: 'how long a device may be offline before the server sends device.offline (default: 900)',
  },
];

export const webhookNoun: PlainNoun = {
  word: 'webhook',
  summary: 'alerts to a URL: devices that fail, drift or go offline, and keys that expire (owners only)',
  commands: [
    {
      usage: 'create <url>',
      dryRun: true,
      summary: 'send alerts to a URL; the command shows the signing secret only once',
      about:
        'The operator of the server must allow the host (`ringfence server --webhook-hosts`). ' +
        'The server signs deliveries as Standard Webhooks specifies (webhook-id, webhook-timestamp, webhook-signature).',
      options: fieldOptions,
      examples: ['ringfence webhook create https://hooks.example.com/ringfence --event device.failed'],
      run: (session, { args: [url = ''], options }: Invocation<WebhookOptions>) => create(session, url, options),
    },
    { usage: 'list', summary: 'list webhooks', examples: ['ringfence webhook list'], run: list },
    {
      usage: 'edit <webhook>',
      dryRun: true,
      summary: 'change a webhook, named by its id, its name or its URL',
      options: [{ flags: '--url <url>', help: 'a new URL' }, ...fieldOptions],
      examples: ['ringfence webhook edit pager --offline-after 3600'],
      run: (session, { args: [text = ''], options }: Invocation<WebhookOptions & { readonly url?: string }>) =>
        edit(session, text, options),
    },
    {
      usage: 'confirm <webhook>',
      dryRun: true,
      summary: 'let a paused webhook send again, and answer for it from now on',
      about: 'A webhook is paused when the owner who set it up is removed or becomes a member.',
      examples: ['ringfence webhook confirm pager'],
      run: (session, { args: [text = ''] }) => confirm(session, text),
    },
    {
      usage: 'test <webhook>',
      dryRun: true,
      summary: 'send a test to a webhook',
      about: '`ringfence webhook deliveries` shows the result.',
      examples: ['ringfence webhook test pager'],
      run: (session, { args: [text = ''] }) => test(session, text),
    },
    {
      usage: 'deliveries <webhook>',
      summary: 'show the deliveries of a webhook, newest first',
      options: [{ flags: '--limit <number>', help: 'maximum number of deliveries', fallback: '20' }],
      examples: ['ringfence webhook deliveries pager'],
      run: (session, { args: [text = ''], options }: Invocation<{ readonly limit: string }>) =>
        deliveries(session, text, options),
    },
    deletionOf(
      { resource: webhooks },
      {
        usage: 'delete <webhook>',
        summary: 'delete a webhook and its pending deliveries',
        examples: ['ringfence webhook delete pager'],
        verb: 'Delete',
        call: (client, { organization_id, id }, options) => client.webhooks.delete(organization_id, id, options),
      },
    ),
  ],
};

interface WebhookOptions {
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

async function create(session: Session, url: string, options: WebhookOptions): Promise<void> {
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

async function list(session: Session): Promise<void> {
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

async function confirm(session: Session, text: string): Promise<void> {
  const client = await session.client();
  const { organization_id, id } = await find(session, webhooks, text);
  const confirmed = await client.webhooks.update(organization_id, id, { paused: false });
  await session.printRecord(confirmed, `Confirmed webhook ${nameOf(confirmed)} (${id}).`);
}

/** What people set of it: every edit gives it another time. */
const fieldsIn = ({ updated_at: _at, ...fields }: Webhook): string => JSON.stringify(fields);

async function edit(
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

async function test(session: Session, text: string): Promise<void> {
  const client = await session.client();
  const webhook = await find(session, webhooks, text);
  const sent = await client.webhooks.test(webhook.organization_id, webhook.id);
  const table = `Sent a test to ${nameOf(webhook)}. \`ringfence webhook deliveries\` shows the result.`;
  await session.printRecord(sent, table);
}

async function deliveries(session: Session, text: string, options: { readonly limit: string }): Promise<void> {
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
