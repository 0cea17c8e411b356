/** Owns the commands about tokens. */
import type { IssuedToken } from '../../api/user.ts';
import { shortId } from '../../client/words/short-id.ts';
import type { Invocation, PlainNoun } from '../command-line/client-command.ts';
import { find, tokens, users, type NamedToken } from '../lookup/resource.ts';
import type { Session } from '../session/session.ts';
import { idColumn, type Column, type Layout } from '../terminal/table.ts';
import { readExpiry, shortTime } from '../terminal/time.ts';
import { deletionOf, listOf, showOf, fieldsOf } from './noun.ts';

const columns = (layout: Layout): readonly Column<NamedToken>[] => [
  { head: 'NAME', text: ({ name }) => name },
  { head: 'DEVICE', text: ({ device, device_id = '' }) => device ?? (layout.wide ? device_id : shortId(device_id)) },
  idColumn('ID', ({ id }) => id, layout),
  { head: 'SCOPE', text: ({ scope }) => scope },
  { head: 'CREATED', text: ({ created_at }) => shortTime(created_at), wide: true },
  { head: 'LAST USED', text: ({ last_used_at }) => shortTime(last_used_at) || 'never' },
  { head: 'EXPIRES', text: ({ expires_at }) => shortTime(expires_at) || 'never' },
];

const form = { none: 'You have no tokens.', sortBy: 'name', columns } as const;

const plain = { resource: tokens, form };

export const tokenNoun: PlainNoun = {
  word: 'token',
  summary: 'tokens that act for a user',
  commands: [
    listOf(plain, {
      usage: 'list',
      summary: 'list your tokens, without their secrets',
      examples: ['ringfence token list'],
    }),
    showOf(plain, {
      usage: 'show <token>',
      summary: 'show a token, without its secret',
      examples: ['ringfence token show ci'],
    }),
    {
      usage: 'create [name]',
      dryRun: true,
      summary: 'create a token; its secret is shown only once',
      options: [
        { flags: '--user <name|id>', help: 'for another user (administrators only)' },
        { flags: '--expires <time>', help: 'expiry time: a time like 2030-01-31T00:00:00Z, or 90d, 12h, 30m from now' },
        { flags: '--read-only', help: 'the token cannot write' },
      ],
      examples: ['ringfence token create ci --expires 90d', 'ringfence token create dashboard --read-only -q > token'],
      run: (session, { args: [name], options }: Invocation<NewToken>) => create(session, name, options),
    },
    {
      usage: 'rotate <token>',
      dryRun: true,
      summary: 'replace the secret of a token; the old secret stops working immediately',
      destructive: true,
      options: [
        {
          flags: '--by-device',
          help: "of an enrolled device's token: its agent makes the new secret, at once if it is connected; the old secret stops when the new one is first used",
        },
      ],
      examples: [
        'ringfence token rotate ci',
        'ringfence token rotate ci --yes -q > token',
        'ringfence token rotate web-1 --by-device',
      ],
      run: (session, { args: [text = ''], options }: Invocation<{ readonly byDevice?: boolean }>) =>
        rotate(session, text, options),
    },
    deletionOf(plain, {
      usage: 'delete <token>',
      summary: 'revoke a token and close its open streams',
      examples: ['ringfence token delete ci --yes'],
      verb: 'Revoke',
      call: (client, { id }, options) => client.tokens.revoke(id, options),
    }),
  ],
};

interface NewToken {
  readonly user?: string;
  readonly expires?: string;
  readonly readOnly?: boolean;
}

async function create(session: Session, name: string | undefined, options: NewToken): Promise<void> {
  const client = await session.client();
  const body = {
    ...(name !== undefined && { name }),
    ...(options.readOnly === true && { scope: 'read-only' as const }),
    ...(options.expires !== undefined && { expires_at: readExpiry(options.expires, Date.now()) }),
  };
  const token =
    options.user === undefined
      ? await client.tokens.create(body)
      : await client.tokens.createFor((await find(session, users, options.user)).id, body);
  await showSecret(session, token);
}

async function showSecret(session: Session, token: IssuedToken): Promise<void> {
  await session.printRecord(token, (layout) => [...fieldsOf(form, token, layout), ['token', token.token]], token.token);
  session.say('Save the token now. You cannot see it again.');
}

async function rotate(session: Session, text: string, { byDevice }: { readonly byDevice?: boolean }): Promise<void> {
  const found = await find(session, tokens, text);
  const by =
    byDevice === true ? 'the device makes another secret, and the old one ends when that is first used' : undefined;
  const device = found.device === undefined ? '' : ` of device ${found.device}`;
  const name = `${found.name || found.id}${device}`;
  const client = await session.client();
  if (session.values.dryRun === true) {
    // Only the refusals count: nothing knows the new secret.
    await client.tokens.rotate(found.id, { ...(by !== undefined && { by_device: true }), dry_run: true });
    return session.printRecord(
      found,
      by === undefined
        ? `Would replace the secret of token ${name}. The old secret would stop working immediately. Nothing was written.`
        : `Would ask for another secret of token ${name}: ${by}. Nothing was written.`,
    );
  }
  if (by !== undefined) {
    const request = await client.tokens.rotate(found.id, { by_device: true });
    return session.printRecord(request, `Asked for another secret of token ${name}: ${by}.`);
  }
  const question = `Replace the secret of token ${name}? The old secret stops working immediately.`;
  if (!(await session.confirm(question))) return session.say('Nothing was changed.');
  const { token, ...rotated } = await client.tokens.rotate(found.id);
  if (token !== undefined) return showSecret(session, { ...rotated, token });
}
