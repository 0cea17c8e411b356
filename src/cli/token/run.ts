/** Owns the implementation of the token commands. */
import type { IssuedToken, Token } from '../../api/user.ts';
import { findOne } from '../session/find-one.ts';
import type { Session } from '../session/session.ts';
import { idColumn, type Column, type Layout } from '../terminal/table.ts';
import { readExpiry, shortTime } from '../terminal/time.ts';

const columns = (layout: Layout): readonly Column<Token>[] => [
  { head: 'NAME', text: ({ name }) => name },
  idColumn('ID', ({ id }) => id, layout),
  { head: 'SCOPE', text: ({ scope }) => scope },
  { ...idColumn<Token>('DEVICE', ({ device_id = '' }) => device_id, layout), wide: true },
  { head: 'CREATED', text: ({ created_at }) => shortTime(created_at), wide: true },
  { head: 'LAST USED', text: ({ last_used_at }) => shortTime(last_used_at) || 'never' },
  { head: 'EXPIRES', text: ({ expires_at }) => shortTime(expires_at) || 'never' },
];

const fieldsOf = (token: Token, layout: Layout): readonly (readonly [string, string])[] =>
  columns({ ...layout, wide: true }).map(({ head, text }) => [head.toLowerCase(), text(token)]);

export async function list(session: Session): Promise<void> {
  const tokens = await (await session.client()).tokens.list();
  await session.printList(tokens, { none: 'You have no tokens.', sortBy: 'name', columns });
}

async function find(session: Session, text: string): Promise<Token> {
  const tokens = await (await session.client()).tokens.list();
  return findOne('token', text, tokens, ({ id, name }) => ({ id, names: [name] }));
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

export async function rotate(session: Session, text: string): Promise<void> {
  const found = await find(session, text);
  const name = found.name || found.id;
  if (session.values.dryRun === true)
    return session.printRecord(
      found,
      `Would replace the secret of token ${name}. The old secret would stop working immediately. Nothing was written.`,
    );
  const question = `Replace the secret of token ${name}? The old secret stops working immediately.`;
  if (!(await session.confirm(question))) return session.say('Nothing was changed.');
  return showSecret(session, await (await session.client()).tokens.rotate(found.id));
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
