/** Owns the checks of the connection to the server: reachable, ready, clock, versions, sign-in, organization. */
import { apiVersion } from '../../api/version.ts';
import type { WhoAmI } from '../../api/user.ts';
import { nodeFetch } from '../../node/fetch.ts';
import { isPlainRemote } from '../../node/plain-http.ts';
import { field, isObject } from '../../policy/json.ts';
import { readServer, type Session } from '../session/session.ts';
import { shortTime } from '../terminal/time.ts';
import { failed, messageOf, ok, skipped, warning, type Check } from './check.ts';

/** Longer than any server that is well takes for a page. */
const timeoutMs = 10_000;
/** More than this, and times in the audit, expiries and sign-ins by provider go wrong. */
const mostSkewMs = 30_000;
const soonMs = 7 * 24 * 60 * 60 * 1_000;

interface Page {
  readonly status: number;
  readonly date: string | null;
  readonly value: unknown;
}

async function read(url: string, signal: AbortSignal): Promise<Page> {
  const answer = await nodeFetch(url, {
    method: 'GET',
    headers: {},
    cache: 'no-store',
    redirect: 'manual',
    signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
  });
  const value = await answer.json().catch(() => undefined);
  return { status: answer.status, date: answer.headers.get('date'), value };
}

export async function serverChecks(session: Session): Promise<readonly Check[]> {
  let server: string;
  try {
    server = readServer(await session.server());
  } catch (error) {
    return [failed('server', messageOf(error)), ...unreached('no server is configured')];
  }
  const { signal } = session;
  const asked = Date.now();
  let health: Page;
  try {
    health = await read(`${server}/healthz`, signal);
  } catch (error) {
    signal.throwIfAborted();
    const advice = 'Check the address, the network path, and that the server runs.';
    return [failed('server', `${server} does not answer: ${messageOf(error)}`, advice), ...unreached('no answer')];
  }
  const answered = Date.now();
  if (health.status !== 200) {
    const advice = 'Another program or a proxy answers there: check the address.';
    return [failed('server', `${server}/healthz answers ${health.status}`, advice), ...unreached('no answer')];
  }
  const plain = isPlainRemote(server);
  return [
    plain
      ? warning('server', `${server} uses plain http`, 'Anyone on the network path can read your token. Use https.')
      : ok('server', `${server} answers in ${answered - asked} ms`),
    await readiness(server, signal),
    clock(health.date, (asked + answered) / 2, answered - asked),
    await version(server, signal),
    ...(await identity(session)),
  ];
}

const unreached = (why: string): readonly Check[] =>
  ['ready', 'clock', 'version', 'sign-in', 'organization'].map((name) => skipped(name, why));

async function readiness(server: string, signal: AbortSignal): Promise<Check> {
  const { status, value } = await read(`${server}/readyz`, signal);
  if (status === 200) return ok('ready', 'the server accepts requests');
  const detail = isObject(value) ? field(value, 'detail') : undefined;
  return failed('ready', typeof detail === 'string' ? detail : `/readyz answers ${status}`, 'Read the server log.');
}

/** The header has whole seconds, and the answer took its time: less than both is no difference. */
function clock(date: string | null, now: number, took: number): Check {
  const theirs = date === null ? Number.NaN : Date.parse(date);
  if (Number.isNaN(theirs)) return skipped('clock', 'the server does not send the time');
  const skew = Math.max(0, Math.abs(theirs + 500 - now) - 500 - took);
  if (skew <= mostSkewMs) return ok('clock', 'matches the clock of the server');
  const seconds = Math.round(skew / 1_000);
  const which = theirs < now ? 'ahead of' : 'behind';
  return failed(
    'clock',
    `this machine is ${seconds} s ${which} the server`,
    'Synchronize both clocks with a time server (NTP).',
  );
}

async function version(server: string, signal: AbortSignal): Promise<Check> {
  const { value } = await read(`${server}/api/openapi.json`, signal);
  const info = isObject(value) ? field(value, 'info') : undefined;
  const theirs = isObject(info) ? field(info, 'version') : undefined;
  if (typeof theirs !== 'string') return warning('version', 'the server does not send its API version');
  if (theirs === apiVersion) return ok('version', `both use API version ${apiVersion}`);
  return warning(
    'version',
    `the server uses API version ${theirs}; this program uses version ${apiVersion}`,
    'Install the same release on both, the server first.',
  );
}

async function identity(session: Session): Promise<readonly Check[]> {
  try {
    const client = await session.client();
    const me = await client.whoAmI();
    return [signIn(me), await organization(session)];
  } catch (error) {
    session.signal.throwIfAborted();
    return [
      failed('sign-in', messageOf(error), 'Run `ringfence login`, or set RINGFENCE_TOKEN or --token-file.'),
      skipped('organization', 'not signed in'),
    ];
  }
}

function signIn({ username, scope, credential }: WhoAmI): Check {
  const who = `as ${username}${scope === 'read-only' ? ', read-only' : ''}`;
  const ends = credential?.expires_at;
  if (ends === undefined) return ok('sign-in', who);
  const soon = credential?.kind === 'user_token' && Date.parse(ends) - Date.now() < soonMs;
  const until = `${who}, until ${shortTime(ends)}`;
  return soon
    ? warning('sign-in', until, 'The token expires soon. Create a new one with `ringfence token create`.')
    : ok('sign-in', until);
}

async function organization(session: Session): Promise<Check> {
  try {
    const id = await session.organization();
    const client = await session.client();
    const { name } = await client.organizations.get(id);
    return ok('organization', name);
  } catch (error) {
    session.signal.throwIfAborted();
    return failed('organization', messageOf(error), '`ringfence org list` shows your organizations.');
  }
}
