/** Owns the commands about webhooks: where alerts go. */
import { Option, type Command } from 'commander';
import { addNoun, commandsOf, repeated } from '../command-line/client-command.ts';
import type { WebhookOptions } from './run.ts';

const addCommand = commandsOf(() => import('./run.ts'));

const fieldOptions = (): readonly Option[] => [
  repeated(
    '--event <event>',
    'device.failed, device.reverted, device.drift_repaired, device.offline, enrollment_key.expiring, policy_test.failing, rule.expiring, trial.started, trial.confirmed, trial.reverted or trial.expired (default: all)',
  ),
  new Option('--name <name>', 'a name for the webhook'),
  new Option(
    '--offline-after <seconds>',
    'how long a device may be offline before the server sends device.offline (default: 900)',
  ),
];

export function addWebhookCommands(program: Command): void {
  const webhook = addNoun(
    program,
    'webhook',
    'alerts to a URL: devices that fail, drift or go offline, and keys that expire (owners only)',
  );
  addCommand<WebhookOptions>(
    webhook,
    {
      usage: 'create <url>',
      dryRun: true,
      summary: 'send alerts to a URL; the command shows the signing secret only once',
      about:
        'The operator of the server must allow the host (`ringfence server --webhook-hosts`). ' +
        'The server signs deliveries as Standard Webhooks specifies (webhook-id, webhook-timestamp, webhook-signature).',
      options: fieldOptions(),
      examples: ['ringfence webhook create https://hooks.example.com/ringfence --event device.failed'],
    },
    (run, session, { args: [url = ''], options }) => run.create(session, url, options),
  );
  addCommand(
    webhook,
    { usage: 'list', summary: 'list webhooks', examples: ['ringfence webhook list'] },
    (run, session) => run.list(session),
  );
  addCommand<WebhookOptions & { readonly url?: string }>(
    webhook,
    {
      usage: 'edit <webhook>',
      dryRun: true,
      summary: 'change a webhook, named by its id, its name or its URL',
      options: [new Option('--url <url>', 'a new URL'), ...fieldOptions()],
      examples: ['ringfence webhook edit pager --offline-after 3600'],
    },
    (run, session, { args: [text = ''], options }) => run.edit(session, text, options),
  );
  addCommand(
    webhook,
    {
      usage: 'confirm <webhook>',
      dryRun: true,
      summary: 'let a paused webhook send again, and answer for it from now on',
      about: 'A webhook is paused when the owner who set it up is removed or becomes a member.',
      examples: ['ringfence webhook confirm pager'],
    },
    (run, session, { args: [text = ''] }) => run.confirm(session, text),
  );
  addCommand(
    webhook,
    {
      usage: 'test <webhook>',
      dryRun: true,
      summary: 'send a test to a webhook',
      about: '`ringfence webhook deliveries` shows the result.',
      examples: ['ringfence webhook test pager'],
    },
    (run, session, { args: [text = ''] }) => run.test(session, text),
  );
  addCommand<{ readonly limit: string }>(
    webhook,
    {
      usage: 'deliveries <webhook>',
      summary: 'show the deliveries of a webhook, newest first',
      options: [new Option('--limit <number>', 'maximum number of deliveries').default('20')],
      examples: ['ringfence webhook deliveries pager'],
    },
    (run, session, { args: [text = ''], options }) => run.deliveries(session, text, options),
  );
  addCommand(
    webhook,
    {
      usage: 'delete <webhook>',
      dryRun: true,
      summary: 'delete a webhook and its pending deliveries',
      destructive: true,
      examples: ['ringfence webhook delete pager'],
    },
    (run, session, { args: [text = ''] }) => run.remove(session, text),
  );
}
