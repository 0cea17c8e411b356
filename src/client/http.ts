/** Owns the typed HTTP client: a method for every operation of the server. */
import { pathFor, pathParams, paths, type PathParams } from '../api/paths.ts';
import {
  idempotentCalls,
  type BodyId,
  type Call,
  type CallId,
  type Calls,
  type CreateOptions,
  type EachCall,
  type Entry,
  type ListId,
  type WriteOptions,
} from './calls.ts';
import { sleep, systemClock, type Clock } from './clock.ts';
import { RingfenceError } from './error.ts';
import { entityTag, nextPage } from './headers.ts';
import {
  badAnswer,
  heldBackMs,
  send,
  withSignal,
  type Credential,
  type Fetch,
  type Query,
  type Transport,
} from './request.ts';

export interface ClientOptions {
  /** Where the server is, e.g. `https://ringfence.example`; a path before `/api` is kept. */
  readonly url: string;
  /** Sent as `Authorization: Bearer …`; a function is asked before each request. */
  readonly token?: Credential;
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly fetch?: Fetch;
  readonly clock?: Clock;
  /** A number from 0 up to but not including 1, like `Math.random`. */
  readonly random?: () => number;
  /** Milliseconds that a plain request may take; 30 seconds unless given. A stream has a watchdog instead. */
  readonly timeout?: number;
  /** Ends every request that is given no signal of its own. A stream has its own. */
  readonly signal?: AbortSignal;
  /** Makes an `Idempotency-Key` for each create. With it, a create whose answer is lost is sent again, up to twice. */
  readonly createKey?: () => string;
}

/** An answer with what its headers say. */
export interface ClientResponse<Value> {
  readonly value: Value;
  readonly status: number;
  readonly etag: string | undefined;
  readonly location: string | undefined;
  readonly requestId: string | undefined;
  /** The `after` of the next page, where there is one. */
  readonly next: string | undefined;
  /** The server's clock when it answered, in milliseconds since the epoch, to the second; undefined where it does not say. */
  readonly serverTime: number | undefined;
}

/** Everything an operation takes: its path's variables, body and query by the names of the wire. */
export interface Request<Id extends CallId> extends WriteOptions, CreateOptions {
  readonly params: PathParams<Id>;
  readonly body?: Calls[Id]['body'];
  readonly query?: Calls[Id]['query'];
}

const defaultTimeout = 30_000;
const pageSize = 1_000;
/** How often a create is sent, the first time included. */
const createAttempts = 3;

/** Whether a create may have been made, and its answer was lost. */
const isLost = (error: unknown): error is RingfenceError =>
  error instanceof RingfenceError && (error.code === 'unreachable' || error.code === 'outcome_unknown');

function transportOf(options: ClientOptions): Transport {
  return {
    url: options.url.replace(/\/+$/, ''),
    token: options.token,
    headers: options.headers ?? {},
    fetch: options.fetch ?? ((url, init) => fetch(url, init)), // A browser's refuses any other `this`.
    clock: options.clock ?? systemClock,
    random: options.random ?? Math.random,
    timeout: options.timeout ?? defaultTimeout,
    signal: options.signal,
    createKey: options.createKey,
  };
}

/** The arguments of a call as a request: the variables of its path, its body if it takes one, then options. */
function requestOf<Id extends CallId>(id: Id, given: readonly unknown[], takesBody: boolean): Request<Id> {
  const names = pathParams(id);
  const rest = given.slice(names.length);
  const body = takesBody ? (rest.shift() ?? {}) : undefined;
  const { signal, ifMatch, idempotencyKey, ...query } = (rest[0] ?? {}) as WriteOptions & CreateOptions & Query;
  return {
    params: Object.fromEntries(names.map((name, place) => [name, given[place]])) as PathParams<Id>,
    query: query as Calls[Id]['query'],
    ...(takesBody && { body: body as Calls[Id]['body'] }),
    ...(signal && { signal }),
    ...(ifMatch !== undefined && { ifMatch }),
    ...(idempotencyKey !== undefined && { idempotencyKey }),
  };
}

/**
 * One server and one credential. Every method sends one request, and answers with the record or throws a `RingfenceError`. Nothing is
 * retried here, except creates with `createKey`. `list` answers with the whole list unless a `limit` is given, `each` walks it page by page.
 */
export class Client {
  readonly transport: Transport;
  constructor(options: ClientOptions) {
    this.transport = transportOf(options);
  }

  /** Any operation by its id, with the headers of its answer. */
  async request<Id extends CallId>(id: Id, request: Request<Id>): Promise<ClientResponse<Calls[Id]['answer']>> {
    const { clock, createKey, signal } = this.transport;
    const makeKey = idempotentCalls.has(id) ? createKey : undefined;
    const idempotencyKey = request.idempotencyKey ?? makeKey?.();
    const keyed = idempotencyKey === undefined ? request : { ...request, idempotencyKey };
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#exchange(id, keyed);
      } catch (error) {
        if (makeKey === undefined || attempt === createAttempts || !isLost(error)) throw error;
        await sleep(clock, error.retryAfter ?? attempt * 250, request.signal ?? signal);
      }
    }
  }

  async #exchange<Id extends CallId>(id: Id, request: Request<Id>): Promise<ClientResponse<Calls[Id]['answer']>> {
    const { transport } = this;
    const { signal = transport.signal, ifMatch, idempotencyKey, query } = request;
    const headers = {
      ...(ifMatch !== undefined && { 'if-match': entityTag(ifMatch) }),
      ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
    };
    return withSignal(
      { clock: transport.clock, signal, deadline: transport.timeout + heldBackMs(query) },
      async (own) => {
        const response = await send(
          transport,
          {
            method: paths[id][0],
            path: pathFor(id, request.params),
            query: query as Query | undefined,
            body: request.body,
            accept: 'application/json',
            headers,
          },
          own,
        );
        const { headers: answered, status } = response;
        let value: unknown;
        try {
          value = await response.json();
        } catch (cause) {
          own.throwIfAborted();
          if (cause instanceof RingfenceError) throw cause;
          throw badAnswer(`the answer to ${id} is not JSON`, status, cause);
        }
        const isList = paths[id][2] === 'list';
        if (Array.isArray(value) !== isList || typeof value !== 'object' || value === null) {
          throw badAnswer(`the answer to ${id} is not a ${isList ? 'list' : 'record'}`, status);
        }
        return {
          value: value as Calls[Id]['answer'],
          status,
          etag: answered.get('etag') ?? undefined,
          location: answered.get('location') ?? undefined,
          requestId: answered.get('x-request-id') ?? undefined,
          next: nextPage(answered.get('link')),
          serverTime: Date.parse(answered.get('date') ?? '') || undefined,
        };
      },
    );
  }

  /** An operation without a body, by its id. */
  #call<Id extends Exclude<CallId, BodyId>>(id: Id): Call<Id> {
    return async (...given) => (await this.request(id, requestOf(id, given, false))).value;
  }

  /** An operation with a body, by its id. */
  #send<Id extends BodyId>(id: Id): Call<Id> {
    return async (...given) => (await this.request(id, requestOf(id, given, true))).value;
  }

  /** A list: whole or one page of it, and entry by entry. */
  #pages<Id extends Exclude<ListId, BodyId>>(id: Id): { readonly list: Call<Id>; readonly each: EachCall<Id> } {
    const walk = async function* (client: Client, given: readonly unknown[]): AsyncGenerator<Entry<Id>> {
      const { query, ...request } = requestOf(id, given, false);
      for (let from: Query = { limit: pageSize, ...query }; ;) {
        const { value, next, status } = await client.request(id, { ...request, query: from as Calls[Id]['query'] });
        yield* value as readonly Entry<Id>[];
        if (next === undefined) return;
        if (next === from['after']) throw badAnswer(`the pages of ${id} do not advance`, status);
        from = { ...from, after: next };
      }
    };
    return { list: this.#call(id), each: (...given) => walk(this, given) };
  }

  readonly whoAmI = this.#call('whoAmI');

  /** Users of the server: for its administrator. */
  readonly users = {
    create: this.#send('createUser'),
    ...this.#pages('listUsers'),
    get: this.#call('readUser'),
    remove: this.#call('removeUser'),
  };

  /** My own tokens, and those that an administrator issues. */
  readonly tokens = {
    create: this.#send('createMyToken'),
    createFor: this.#send('createUserToken'),
    ...this.#pages('listMyTokens'),
    get: this.#call('readToken'),
    /** Gives it another secret; the old one stops at once. */
    rotate: this.#call('rotateToken'),
    revoke: this.#call('revokeToken'),
  };

  readonly organizations = {
    create: this.#send('createOrganization'),
    ...this.#pages('listOrganizations'),
    get: this.#call('readOrganization'),
    update: this.#send('updateOrganization'),
    delete: this.#call('deleteOrganization'),
  };

  readonly members = {
    ...this.#pages('listMembers'),
    add: this.#send('addMember'),
    get: this.#call('readMember'),
    update: this.#send('updateMember'),
    /** For oneself only. */
    accept: this.#call('acceptMember'),
    remove: this.#call('removeMember'),
  };

  readonly invitations = {
    create: this.#send('createInvitation'),
    ...this.#pages('listInvitations'),
    revoke: this.#call('revokeInvitation'),
  };

  readonly devices = {
    create: this.#send('createDevice'),
    ...this.#pages('listDevicesInOrganization'),
    get: this.#call('readDevice'),
    update: this.#send('updateDevice'),
    delete: this.#call('deleteDevice'),
    /** Gives it to another member. */
    move: this.#send('moveDevice'),
    isolate: this.#send('isolateDevice'),
    /** What isolating it would make the other devices refuse. */
    previewIsolation: this.#call('previewIsolation'),
    liftIsolation: this.#call('liftIsolation'),
    /** The groups in effect on it, and why each is. */
    groups: this.#call('listDeviceGroups'),
  };

  /** What agents say about themselves, and what follows from it. */
  readonly statuses = {
    report: this.#send('reportDeviceStatus'),
    reportFlows: this.#send('reportFlows'),
    ...this.#pages('listDeviceStatuses'),
    convergence: this.#call('readConvergence'),
    explain: this.#call('explainConnection'),
    overview: this.#call('readOverview'),
  };

  /** The traffic that devices observed, newest first. */
  readonly flows = {
    ...this.#pages('listFlows'),
    /** How many devices reported, and how many packets were not recorded. */
    coverage: this.#call('readFlowCoverage'),
  };

  readonly enrollmentKeys = {
    create: this.#send('createEnrollmentKey'),
    ...this.#pages('listEnrollmentKeys'),
    get: this.#call('readEnrollmentKey'),
    revoke: this.#call('revokeEnrollmentKey'),
  };

  /** What must be allowed or refused, and whether it is. */
  readonly policyTests = { list: this.#call('listPolicyTests'), replace: this.#send('replacePolicyTests') };

  /** Changes that end by themselves unless somebody confirms them. */
  readonly trials = {
    ...this.#pages('listTrials'),
    get: this.#call('readTrial'),
    /** More devices try the change. */
    widen: this.#send('widenTrial'),
    confirm: this.#call('confirmTrial'),
    /** All of it, or the given records. */
    revert: this.#send('revertTrial'),
  };

  /** Where alerts go: for owners. */
  readonly webhooks = {
    create: this.#send('createWebhook'),
    ...this.#pages('listWebhooks'),
    get: this.#call('readWebhook'),
    update: this.#send('updateWebhook'),
    delete: this.#call('deleteWebhook'),
    test: this.#call('testWebhook'),
    deliveries: this.#call('listWebhookDeliveries'),
  };

  /** What a change would do, before it is written. */
  readonly simulate = this.#send('simulateChanges');
  /** Rules that would admit the observed traffic of some devices; for owners. */
  readonly propose = this.#send('proposeRules');

  /** Who changed what, newest first: in an organization, for its owner; on the whole server, for its administrator. */
  readonly audit = {
    ...this.#pages('listAudit'),
    server: this.#call('listServerAudit'),
    eachOfServer: this.#pages('listServerAudit').each,
  };

  /** Signed files about devices, for owners; and the keys that sign them. */
  readonly evidence = {
    create: this.#send('createEvidence'),
    keys: this.#call('listEvidenceKeys'),
    rotateKey: this.#call('rotateEvidenceKey'),
  };

  /** States of groups and devices, newest first, of deleted ones too; and the way back to one. */
  readonly history = {
    group: this.#call('listSecurityGroupHistory'),
    device: this.#call('listDeviceHistory'),
    /** The other devices that have, or had, the host name of this one: of each its newest state under that name. */
    namesakes: this.#call('listDeviceNamesakes'),
    /** Makes a group what it was at a revision. */
    restore: this.#send('restoreSecurityGroup'),
  };

  /** Groups of the organization; `list` and `get` also show the user-owned groups that the caller may read. */
  readonly groups = {
    create: this.#send('createSecurityGroup'),
    ...this.#pages('listSecurityGroups'),
    get: this.#call('readSecurityGroup'),
    update: this.#send('updateSecurityGroup'),
    delete: this.#call('deleteSecurityGroup'),
    /** Which of its rules decided the observed traffic. */
    usage: this.#call('readSecurityGroupUsage'),
    /** Over all groups: the rules that no observed traffic used. */
    unused: this.#call('readUnusedRules'),
    observation: this.#call('readSecurityGroupObservation'),
  };

  /** Several records written as one, and undone as one. */
  readonly changes = {
    apply: this.#send('applyChanges'),
    get: this.#call('readChangeSet'),
    revert: this.#call('revertChangeSet'),
  };

  /** Groups that the caller owns. */
  readonly userGroups = {
    create: this.#send('createUserSecurityGroup'),
    ...this.#pages('listUserSecurityGroups'),
    get: this.#call('readUserSecurityGroup'),
    update: this.#send('updateUserSecurityGroup'),
    delete: this.#call('deleteUserSecurityGroup'),
  };
}
