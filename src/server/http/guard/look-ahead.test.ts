/** Proves that what is read before it is known who asks lets nobody in, tells nobody anything, and is read for those only who may ask. */
import { expect, test } from 'vitest';
import { parseGroupId, parseOrganizationId, parseTokenId, parseUserId, type UserId } from '../../../policy/ids.ts';
import type { Authenticate, Principal } from '../../identity/authenticate.ts';
import type { Access } from '../../store/contract/access.ts';
import type { Store } from '../../store/contract/store.ts';
import { HttpError } from '../errors.ts';
import { Entrance } from './entrance.ts';
import { Lookups } from './lookups.ts';
import { RequestLimits } from './request-limits.ts';

const idOf = (n: number): string => `00000000-0000-4000-8000-${n.toString().padStart(12, '0')}`;
const org_id = parseOrganizationId(idOf(1));
const sg_id = parseGroupId(idOf(2));
const owner = parseUserId(idOf(3));
const other = parseUserId(idOf(4));

const principal = (user_id: UserId, scope: 'full' | 'read-only' = 'full'): Principal => ({
  kind: 'user',
  token_id: parseTokenId(idOf(5)),
  user_id,
  username: 'somebody',
  is_admin: false,
  scope,
});

/** A server whose database says what it is told to, when it is told to, and notes what it is asked, and in which order. */
function stage({ burst = 100 } = {}) {
  const asked: string[] = [];
  let who: Awaited<ReturnType<Authenticate>> = principal(owner);
  let members: readonly UserId[] = [owner];
  let answer: Promise<void> = Promise.resolve();
  let fails = false;
  const group: Access['group'] = async (_org, { user }) => {
    asked.push(`group for ${user === owner ? 'owner' : 'other'}`);
    if (fails) throw new Error('the database is gone');
    const stored = { id: sg_id, revision: 1, json: '{}', record: {} };
    const isMember = members.includes(user);
    return { membership: { role: isMember ? 'owner' : undefined }, thing: { user_id: undefined, stored } } as never;
  };
  const authenticate: Authenticate = async () => {
    asked.push('who');
    await answer;
    return who;
  };
  const store = { access: { group } } as unknown as Store;
  const lookups = new Lookups(store, store, authenticate);
  const limit = { perSecond: 1, burst };
  const entrance = new Entrance({
    lookups: { prompt: lookups, patient: lookups },
    limits: new RequestLimits({ credential: limit, user: limit, address: limit, failed: limit }, () => 0),
    audit: { record: () => Promise.reject(new Error('nothing is recorded here')) },
    answerTimeoutMs: 60_000,
  });
  const request = {
    id: 'r',
    method: 'PATCH',
    ip: '127.0.0.1',
    socket: {},
    headers: { authorization: 'Bearer rf_user_x' },
  };
  return {
    asked,
    set: (to: { who?: typeof who; members?: typeof members; answer?: typeof answer; fails?: boolean }): void => {
      if ('who' in to) who = to.who;
      members = to.members ?? members;
      answer = to.answer ?? answer;
      fails = to.fails ?? fails;
      asked.length = 0;
    },
    /** What the write of a group is answered with: the code of its refusal, or that it is let in. */
    ask: (params: Readonly<Record<string, unknown>> = { org_id, sg_id }): Promise<string> =>
      entrance.admit('updateSecurityGroup', request, params).then(
        () => 'let in',
        (error: unknown) => (error instanceof HttpError ? error.code : String(error)),
      ),
  };
}

const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

test('a caller that is known is let in by what was read beside the look at its credential, once', async () => {
  const { ask, asked, set } = stage();
  expect(await ask()).toBe('let in');
  expect(asked).toEqual(['who', 'group for owner']);
  let answer = (): void => {};
  set({ answer: new Promise<void>((resolve) => (answer = resolve)) });
  const asking = ask();
  for (let n = 0; n < 3; n += 1) await turn();
  expect(asked).toEqual(['who', 'group for owner']);
  answer();
  expect(await asking).toBe('let in');
  expect(asked).toEqual(['who', 'group for owner']);
});

test('a credential that has ended is refused with 401, whatever was read for it, and nothing is read for it again', async () => {
  const { ask, asked, set } = stage();
  await ask();
  set({ who: undefined });
  expect(await ask()).toBe('unauthenticated');
  set({});
  expect(await ask()).toBe('unauthenticated');
  expect(asked).toEqual(['who']);
  set({ fails: true });
  expect(await ask()).toBe('unauthenticated');
});

test('what was read for somebody else is not used', async () => {
  const { ask, asked, set } = stage();
  await ask();
  set({ who: principal(other) });
  expect(await ask()).toBe('not_found');
  expect(asked).toEqual(['who', 'group for owner', 'group for other']);
});

test('a member that was removed meets a stranger’s answer at its next request', async () => {
  const { ask, set } = stage();
  expect(await ask()).toBe('let in');
  set({ members: [] });
  expect(await ask()).toBe('not_found');
});

test('a failed look ahead is the failure of a caller that is let in, and of nobody else', async () => {
  const { ask, set } = stage();
  await ask();
  set({ fails: true });
  expect(await ask()).toBe('Error: the database is gone');
});

test('nothing is read ahead for who asks too often, for a write of a read-only token, or by a path that is none', async () => {
  const often = stage({ burst: 1 });
  await often.ask();
  often.set({});
  expect(await often.ask()).toBe('rate_limited');
  expect(often.asked).toEqual(['who']);

  const readOnly = stage();
  readOnly.set({ who: principal(owner, 'read-only') });
  expect(await readOnly.ask()).toBe('forbidden');
  expect(await readOnly.ask()).toBe('forbidden');
  expect(readOnly.asked).toEqual(['who', 'who']);

  const lost = stage();
  await lost.ask();
  lost.set({});
  expect(await lost.ask({ org_id, sg_id: 'nothing' })).toBe('malformed_path');
  expect(lost.asked).toEqual(['who']);
});
