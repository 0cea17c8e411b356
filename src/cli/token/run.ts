/** Owns the implementation of the token commands. */
import type { IssuedToken, Token } from '../../api/user.ts';
import { RingfenceError } from '../../client/error.ts';
import { shortId } from '../../client/words/short-id.ts';
import { allDevices, deviceName } from '../lookup/device.ts';
import { findOne } from '../session/find-one.ts';
import type { Session } from '../session/session.ts';
import { CliError } from '../terminal/exit.ts';
import { idColumn, type Column, type Layout } from '../terminal/table.ts';
import { readExpiry, shortTime } from '../terminal/time.ts';

/** A token, with the name of its device where that is in the organization of this person. */
interface NamedToken extends Token {
  readonly device?: string;
}

const columns = (layout: Layout): readonly Column<NamedToken>[] => [
  { head: 'NAME', text: ({ name }) => name },
  { head: 'DEVICE', text: ({ device, device_id = '' }) => device ?? (layout.wide ? device_id : shortId(device_id)) },
  idColumn('ID', ({ id }) => id, layout),
  { head: 'SCOPE', text: ({ scope }) => scope },
  { head: 'CREATED', text: ({ created_at }) => shortTime(created_at), wide: true },
  { head: 'LAST USED', text: ({ last_used_at }) => shortTime(last_used_at) || 'never' },
  { head: 'EXPIRES', text: ({ expires_at }) => shortTime(expires_at) || 'never' },
];

const fieldsOf = (token: NamedToken, layout: Layout): readonly (readonly [string, string])[] =>
  columns({ ...layout, wide: true }).map(({ head, text }) => [head.toLowerCase(), text(token)]);

async function allTokens(session: Session): Promise<readonly NamedToken[]> {
  const tokens = await (await session.client()).tokens.list();
  if (tokens.every(({ device_id }) => device_id === undefined)) return tokens;
  // Who is in several organizations, or in none, has to name one; the tokens are listed all the same.
  const devices = await allDevices(session).catch((error: unknown) => {
    if (error instanceof CliError || error instanceof RingfenceError) return [];
    throw error;
  });
  const names = new Map<string, string>(devices.map((device) => [device.id, deviceName(device)]));
  return tokens.map((token) => {
    const device = names.get(token.device_id ?? '');
    return device === undefined ? token : { ...token, device };
  });
}

export async function list(session: Session): Promise<void> {
  const tokens = await allTokens(session);
  await session.printList(tokens, { none: 'You have no tokens.', sortBy: 'name', columns });
}

async function find(session: Session, text: string): Promise<NamedToken> {
  const tokens = await allTokens(session);
  return findOne('token', text, tokens, ({ id, name, device = '' }) => ({ id, names: [name, device] }));
}

export async function show(session: Session, text: string): Promise<void> {
  const token = await find(session, text);
  await session.printRecord(token, (layout) => fieldsOf(token, layout));
}

export interface NewToken {
  readonly user?: string;
  readonly expires?: string;
  readonly readOnly?: boolean;
}

export async function create(session: Session, name: string | undefined, options: NewToken): Promise<void> {
  const client = await session.client();
  const body = {
    ...(name !== undefined && { name }),
    ...(options.readOnly === true && { scope: 'read-only' as const }),
    ...(options.expires !== undefined && { expires_at: readExpiry(options.expires, Date.now()) }),
  };
  const token =
    options.user === undefined
      ? await client.tokens.create(body)
      : await client.tokens.createFor(await userId(session, options.user), body);
  await showSecret(session, token);
}

async function showSecret(session: Session, token: IssuedToken): Promise<void> {
  await session.printRecord(token, (layout) => [...fieldsOf(token, layout), ['token', token.token]], token.token);
  session.say('Save the token now. You cannot see it again.');
}

export async function rotate(
  session: Session,
  text: string,
  { byDevice }: { readonly byDevice?: boolean },
): Promise<void> {
  const found = await find(session, text);
  const by =
    byDevice === true ? 'the device makes another secret, and the old one ends when that is first used' : undefined;
  const device = found.device === undefined ? '' : ` of device ${found.device}`;
  const name = `${found.name || found.id}${device}`;
  if (session.values.dryRun === true)
    return session.printRecord(
      found,
      by === undefined
        ? `Would replace the secret of token ${name}. The old secret would stop working immediately. Nothing was written.`
        : `Would ask for another secret of token ${name}: ${by}. Nothing was written.`,
    );
  const client = await session.client();
  if (by !== undefined) {
    const asked = await client.tokens.rotate(found.id, { by_device: true });
    return session.printRecord(asked, `Asked for another secret of token ${name}: ${by}.`);
  }
  const question = `Replace the secret of token ${name}? The old secret stops working immediately.`;
  if (!(await session.confirm(question))) return session.say('Nothing was changed.');
  const { token, ...rotated } = await client.tokens.rotate(found.id);
  if (token !== undefined) return showSecret(session, { ...rotated, token });
}

async function userId(session: Session, text: string): Promise<string> {
  const users = await (await session.client()).users.list();
  return findOne('user', text, users, ({ id, username }) => ({ id, names: [username] })).id;
}

export async function remove(session: Session, text: string): Promise<void> {
  const found = await find(session, text);
  if (session.values.dryRun === true)
    return session.printRecord(found, `Would revoke token ${found.name || found.id}. Nothing was written.`);
  if (!(await session.confirm(`Revoke token ${found.name || found.id}?`))) return session.say('Nothing was changed.');
  const token = await (await session.client()).tokens.revoke(found.id);
  return session.printRecord(token, `Revoked token ${token.name || token.id}.`);
}
