/** Owns the browser sign-in: the methods that the server offers, the redirect to the provider and back, and signing out. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { signInPaths, type SignedOut, type SignInMethods } from '../../../api/sign-in.ts';
import { SignInError } from '../../identity/relying-party.ts';
import type { BrowserSignIn } from '../../identity/setup.ts';
import { ticketSeconds } from '../../identity/ticket.ts';
import type { AuditNote } from '../../store/data/audit.ts';
import { HttpError, StoreError, problemTable } from '../../problems.ts';
import type { Store } from '../../store/open.ts';
import { subscriberOf } from '../../limits/subscriber.ts';
import type { RequestLimits } from '../guard/request-limits.ts';
import { addressOf } from '../request/address.ts';
import { cookieName, readCookie, writeCookie, type CookieName } from '../request/cookies.ts';
import { refuseForgery } from '../request/csrf.ts';
import { escape, page, pageHeaders } from '../pages/html.ts';
import type { Log } from '../observe/log.ts';

export interface SignInRouteOptions {
  readonly methods: SignInMethods;
  readonly browser?: BrowserSignIn | undefined;
  readonly store: Pick<Store, 'users' | 'audit' | 'sessions' | 'invitations'>;
  readonly limits: RequestLimits;
  readonly log: Log;
}

const statuses = { stale: 400, guess: 400, denied: 401, refused: 401, retry: 503 } as const;

/** Codes of one address, and of all, that this process has at the provider at a time: an honest one is there for a moment. */
const mostOfAddress = 8;
const mostOfAll = 32;

const sum = (numbers: Iterable<number>): number => [...numbers].reduce((all, one) => all + one, 0);

function failurePage(reply: FastifyReply, status: number, why: string): FastifyReply {
  const body = `<h1>Not signed in</h1>
<p>${escape(why)}</p>
<p><a href="/ui/">Back to Ringfence</a></p>`;
  return reply.code(status).headers(pageHeaders).send(page('Ringfence: not signed in', body));
}

/** Takes a browser to the provider, back, and out again. */
class BrowserSignInRoutes {
  readonly #browser: BrowserSignIn;
  readonly #options: SignInRouteOptions;
  /** How many codes of an address are at the provider right now. */
  readonly #atProvider = new Map<string, number>();

  constructor(browser: BrowserSignIn, options: SignInRouteOptions) {
    this.#browser = browser;
    this.#options = options;
  }

  get #secure(): boolean {
    return this.#browser.publicUrl().startsWith('https:');
  }

  #read(request: FastifyRequest, name: CookieName): string | undefined {
    return readCookie(request.headers.cookie, cookieName(name, this.#secure));
  }

  #write(reply: FastifyReply, name: CookieName, value: string, seconds: number): void {
    reply.header('set-cookie', writeCookie(cookieName(name, this.#secure), value, this.#secure, seconds));
  }

  async begin(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { return_to, here } = request.query as { readonly return_to?: unknown; readonly here?: unknown };
    const returnTo = typeof return_to === 'string' ? return_to : undefined;
    const { party } = this.#browser;
    const publicUrl = this.#browser.publicUrl();
    // The provider sends people back to the public address, and cookies stay with the name they were set under.
    if (request.host !== new URL(publicUrl).host && here === undefined) {
      const query = new URLSearchParams({ here: '1', ...(returnTo === undefined ? {} : { return_to: returnTo }) });
      return reply.redirect(`${publicUrl}${signInPaths.signIn.path}?${query.toString()}`, 302);
    }
    try {
      const { location, ticket } = await party.begin(returnTo);
      this.#write(reply, 'sign-in', ticket, ticketSeconds);
      return reply.redirect(location, 302);
    } catch (error) {
      if (!(error instanceof SignInError)) throw error;
      this.#options.log.warn({ req: request.id, err: error.cause }, error.message);
      return failurePage(reply, statuses[error.code], error.message);
    }
  }

  /** A code is a credential, which only the provider can judge: an address that brings too many bad ones waits, and few are there at a time. */
  async finish(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const address = subscriberOf(addressOf(request));
    this.#options.limits.presented({}, address);
    const [ofAddress, ofAll] = [this.#atProvider.get(address) ?? 0, sum(this.#atProvider.values())];
    if (ofAddress >= mostOfAddress || ofAll >= mostOfAll) {
      const why = 'Many people are signing in. Reload this page in a moment.';
      return failurePage(reply.header('retry-after', '1'), 503, why);
    }
    this.#atProvider.set(address, ofAddress + 1);
    try {
      return await this.#finish(request, reply, address);
    } finally {
      const left = (this.#atProvider.get(address) ?? 1) - 1;
      if (left === 0) this.#atProvider.delete(address);
      else this.#atProvider.set(address, left);
    }
  }

  async #finish(request: FastifyRequest, reply: FastifyReply, address: string): Promise<FastifyReply> {
    const { sessions, party, lifetimeSeconds } = this.#browser;
    const { store, log, limits } = this.#options;
    const ticket = this.#read(request, 'sign-in');
    // A ticket is used once, also when the sign-in fails.
    this.#write(reply, 'sign-in', '', 0);
    try {
      const given = new URL(request.url, 'http://localhost').searchParams;
      const { identity, proven, grant, returnTo } = await party.finish(ticket, given);
      const user = await store.users.forIdentity(identity);
      const before = this.#read(request, 'session');
      if (before !== undefined) await sessions.drop(before);
      const { id, secret } = await sessions.begin(user.id, grant);
      const note: AuditNote = {
        operation: 'signIn',
        user_id: user.id,
        credential: { kind: 'session', id },
        address: addressOf(request),
        request_id: request.id,
      };
      await store.audit.record(note);
      await store.invitations.accept({ issuer: identity.issuer, ...proven }, user.id, note);
      this.#write(reply, 'session', secret, lifetimeSeconds);
      return reply.redirect(returnTo, 302);
    } catch (error) {
      if (error instanceof StoreError && error.code === 'user_removed') {
        return failurePage(reply, 403, 'This user was removed from this server.');
      }
      if (!(error instanceof SignInError)) throw error;
      if (error.code === 'guess') limits.failed(address);
      log.warn({ req: request.id, ...(error.cause === undefined ? {} : { err: error.cause }) }, error.message);
      return failurePage(reply, statuses[error.code], error.message);
    }
  }

  async end(request: FastifyRequest): Promise<{ readonly cookie: string; readonly body: SignedOut }> {
    const { sessions, publicUrl } = this.#browser;
    refuseForgery(request, new URL(publicUrl()).origin);
    const secret = this.#read(request, 'session');
    const session =
      secret === undefined ? undefined : await sessions.authenticate(secret, this.#options.store.sessions);
    const cookie = writeCookie(cookieName('session', this.#secure), '', this.#secure, 0);
    if (secret === undefined) throw problemTable.credential_missing();
    if (session === undefined) throw problemTable.credential_ended();
    const { everywhere } = request.query as { readonly everywhere?: unknown };
    const place = await sessions.end(secret, session, everywhere === 'true');
    await this.#options.store.audit.record({
      operation: 'signOut',
      user_id: session.user_id,
      credential: { kind: 'session', id: session.token_id },
      address: addressOf(request),
      request_id: request.id,
    });
    return { cookie, body: place === undefined ? {} : { provider_logout: place } };
  }
}

export function registerSignIn(app: FastifyInstance, options: SignInRouteOptions): void {
  const { methods, browser } = options;
  const { listSignInMethods, signIn, finishSignIn, signOut } = signInPaths;
  app.get(listSignInMethods.path, (_request, reply) =>
    reply.type('application/json; charset=utf-8').send(JSON.stringify(methods)),
  );
  if (browser === undefined) {
    const absent = (): never => {
      throw new HttpError('not_found', 'This server does not support sign-in in a browser.');
    };
    app.get(signIn.path, absent);
    app.get(finishSignIn.path, absent);
    app.post(signOut.path, () => {
      throw problemTable.credential_missing();
    });
    return;
  }
  const routes = new BrowserSignInRoutes(browser, options);
  app.get(signIn.path, (request, reply) => routes.begin(request, reply));
  app.get(finishSignIn.path, (request, reply) => routes.finish(request, reply));
  app.post(signOut.path, async (request, reply) => {
    const { cookie, body } = await routes.end(request);
    return reply.header('set-cookie', cookie).type('application/json; charset=utf-8').send(JSON.stringify(body));
  });
}
