/** Owns the typed HTTP client: a method for every operation of the server. */
import type { AuditEntry } from '../api/audit.ts';
import type { Convergence } from '../api/enforcement/convergence.ts';
import type { Explanation } from '../api/enforcement/explanation.ts';
import type {
  AddDevice,
  AppliedGroup,
  Device,
  DeviceReport,
  DeviceStatus,
  RegisteredDevice,
  ReportedStatus,
  UpdateDevice,
} from '../api/device.ts';
import type { DevicePolicyState, GroupState } from '../api/history/states.ts';
import type { AddSecurityGroup, SecurityGroup, UpdateSecurityGroup, WrittenGroup } from '../api/group.ts';
import type {
  AddMember,
  AddOrganization,
  Member,
  Organization,
  RemovedMember,
  UpdateMember,
  UpdateOrganization,
} from '../api/organization.ts';
import { pathFor, paths, type PathParams } from '../api/paths.ts';
import type {
  AddEnrollmentKey,
  AddToken,
  AddUser,
  EnrollmentKey,
  IssuedEnrollmentKey,
  IssuedToken,
  Token,
  User,
  WhoAmI,
} from '../api/user.ts';
import type {
  CallId,
  Calls,
  ConvergenceQuestion,
  ExplainQuestion,
  DeleteGroup,
  Entry,
  GroupPage,
  MayOpen,
  TokenPage,
  ListId,
  Page,
  RemoveMember,
  RevisionPage,
  UpdateGroup,
  WriteGroup,
} from './calls.ts';
import type { AddWebhook, MadeWebhook, UpdateWebhook, Webhook, WebhookDelivery } from '../api/alerts/webhook.ts';
import { systemClock, type Clock } from './clock.ts';
import { RingfenceError } from './error.ts';
import { entityTag, nextPage } from './headers.ts';
import { withQuery } from './write-query.ts';
import { badAnswer, heldBackMs, send, withSignal, type Credential, type Fetch, type Transport } from './request.ts';

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
}

export interface CallOptions {
  readonly signal?: AbortSignal;
}
export interface WriteOptions extends CallOptions {
  /** Refuse with `precondition_failed` unless the record still has this revision (or this entity tag). */
  readonly ifMatch?: number | string;
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
}

/** Everything an operation takes: its path's variables, body and query by the names of the wire. */
export interface Request<Id extends CallId> extends WriteOptions {
  readonly params: PathParams<Id>;
  readonly body?: Calls[Id]['body'];
  readonly query?: Calls[Id]['query'];
}

const defaultTimeout = 30_000;
const pageSize = 1_000;
export function transportOf(options: ClientOptions): Transport {
  return {
    url: options.url.replace(/\/+$/, ''),
    token: options.token,
    headers: options.headers ?? {},
    fetch: options.fetch ?? ((url, init) => fetch(url, init)), // A browser's refuses any other `this`.
    clock: options.clock ?? systemClock,
    random: options.random ?? Math.random,
    timeout: options.timeout ?? defaultTimeout,
  };
}

type Paged = CallOptions & Page;
type Listing = CallOptions & GroupPage & TokenPage;

/**
 * One server and one credential. Every method sends one request, and answers with the record or throws a `RingfenceError`; nothing is
 * retried here. `list` answers with the whole list unless a `limit` is given, `each` walks it page by page.
 */
export class Client {
  readonly transport: Transport;
  constructor(options: ClientOptions) {
    this.transport = transportOf(options);
  }

  /** Any operation by its id, with the headers of its answer. */
  async request<Id extends CallId>(id: Id, request: Request<Id>): Promise<ClientResponse<Calls[Id]['answer']>> {
    const { transport } = this;
    const { signal, ifMatch, query } = request;
    return withSignal(
      { clock: transport.clock, signal, deadline: transport.timeout + heldBackMs(query) },
      async (own) => {
        const response = await send(
          transport,
          {
            method: paths[id][0],
            path: pathFor(id, request.params),
            query: query as Readonly<Record<string, string | number | boolean | undefined>> | undefined,
            body: request.body,
            accept: 'application/json',
            ...(ifMatch === undefined ? {} : { headers: { 'if-match': entityTag(ifMatch) } }),
          },
          own,
        );
        const { headers, status } = response;
        let value: unknown;
        try {
          value = await response.json();
        } catch (cause) {
          own.throwIfAborted();
          if (cause instanceof RingfenceError) throw cause;
          throw badAnswer(`the answer to ${id} is no JSON`, status, cause);
        }
        const isList = paths[id][2] === 'list';
        if (Array.isArray(value) !== isList || typeof value !== 'object' || value === null) {
          throw badAnswer(`the answer to ${id} is no ${isList ? 'list' : 'record'}`, status);
        }
        return {
          value: value as Calls[Id]['answer'],
          status,
          etag: headers.get('etag') ?? undefined,
          location: headers.get('location') ?? undefined,
          requestId: headers.get('x-request-id') ?? undefined,
          next: nextPage(headers.get('link')),
        };
      },
    );
  }

  async #value<Id extends CallId>(id: Id, request: Request<Id>): Promise<Calls[Id]['answer']> {
    return (await this.request(id, request)).value;
  }

  #list<Id extends ListId>(id: Id, params: PathParams<Id>, options: Listing): Promise<Calls[Id]['answer']> {
    const { signal, ...query } = options;
    return this.#value(id, { params, query, ...(signal && { signal }) });
  }

  async *#each<Id extends ListId>(id: Id, params: PathParams<Id>, options: Listing): AsyncGenerator<Entry<Id>> {
    const { signal, ...query } = options;
    let { after } = query;
    for (;;) {
      const from: GroupPage & TokenPage = { limit: pageSize, ...query, ...(after !== undefined && { after }) };
      const page = await this.request(id, { params, query: from, ...(signal && { signal }) });
      yield* page.value;
      if (page.next === undefined) return;
      if (page.next === after) throw badAnswer(`the pages of ${id} do not advance`, page.status);
      after = page.next;
    }
  }

  whoAmI(options: CallOptions = {}): Promise<WhoAmI> {
    return this.#value('whoAmI', { params: {}, ...options });
  }

  /** Users of the server: for its administrator. */
  readonly users = {
    create: (body: AddUser, options: CallOptions = {}): Promise<User> =>
      this.#value('createUser', { params: {}, body, ...options }),
    list: (options: CallOptions & Page = {}): Promise<readonly User[]> => this.#list('listUsers', {}, options),
    each: (options: CallOptions & Page = {}): AsyncIterable<User> => this.#each('listUsers', {}, options),
    get: (user_id: string, options: CallOptions = {}): Promise<User> =>
      this.#value('readUser', { params: { user_id }, ...options }),
    remove: (user_id: string, options: CallOptions = {}): Promise<Calls['removeUser']['answer']> =>
      this.#value('removeUser', { params: { user_id }, ...options }),
  };

  /** My own tokens, and those that an administrator issues. */
  readonly tokens = {
    create: (body: AddToken = {}, options: CallOptions = {}): Promise<IssuedToken> =>
      this.#value('createMyToken', { params: {}, body, ...options }),
    createFor: (user_id: string, body: AddToken = {}, options: CallOptions = {}): Promise<IssuedToken> =>
      this.#value('createUserToken', { params: { user_id }, body, ...options }),
    list: (options: CallOptions & TokenPage = {}): Promise<readonly Token[]> => this.#list('listMyTokens', {}, options),
    each: (options: CallOptions & TokenPage = {}): AsyncIterable<Token> => this.#each('listMyTokens', {}, options),
    get: (token_id: string, options: CallOptions = {}): Promise<Token> =>
      this.#value('readToken', { params: { token_id }, ...options }),
    /** Gives it another secret; the old one stops at once. */
    rotate: (token_id: string, options: CallOptions = {}): Promise<IssuedToken> =>
      this.#value('rotateToken', { params: { token_id }, ...options }),
    revoke: (token_id: string, options: CallOptions = {}): Promise<Token> =>
      this.#value('revokeToken', { params: { token_id }, ...options }),
  };

  readonly organizations = {
    create: (body: AddOrganization, options: CallOptions = {}): Promise<Organization> =>
      this.#value('createOrganization', { params: {}, body, ...options }),
    list: (options: CallOptions & Page = {}): Promise<readonly Organization[]> =>
      this.#list('listOrganizations', {}, options),
    each: (options: CallOptions & Page = {}): AsyncIterable<Organization> =>
      this.#each('listOrganizations', {}, options),
    get: (org_id: string, options: CallOptions = {}): Promise<Organization> =>
      this.#value('readOrganization', { params: { org_id }, ...options }),
    update: (org_id: string, body: UpdateOrganization, options: WriteOptions = {}): Promise<Organization> =>
      this.#value('updateOrganization', { params: { org_id }, body, ...options }),
    delete: (org_id: string, options: WriteOptions = {}): Promise<Organization> =>
      this.#value('deleteOrganization', { params: { org_id }, ...options }),
  };

  readonly members = {
    list: (org_id: string, options: CallOptions & Page = {}): Promise<readonly Member[]> =>
      this.#list('listMembers', { org_id }, options),
    each: (org_id: string, options: CallOptions & Page = {}): AsyncIterable<Member> =>
      this.#each('listMembers', { org_id }, options),
    add: (org_id: string, body: AddMember, options: CallOptions = {}): Promise<Member> =>
      this.#value('addMember', { params: { org_id }, body, ...options }),
    get: (org_id: string, user_id: string, options: CallOptions = {}): Promise<Member> =>
      this.#value('readMember', { params: { org_id, user_id }, ...options }),
    update: (org_id: string, user_id: string, body: UpdateMember, options: CallOptions = {}): Promise<Member> =>
      this.#value('updateMember', { params: { org_id, user_id }, body, ...options }),
    remove: (org_id: string, user_id: string, options: CallOptions & RemoveMember = {}): Promise<RemovedMember> =>
      this.#value('removeMember', { params: { org_id, user_id }, ...withQuery(options) }),
  };

  readonly devices = {
    create: (org_id: string, body: AddDevice, options: CallOptions = {}): Promise<RegisteredDevice> =>
      this.#value('createDevice', { params: { org_id }, body, ...options }),
    list: (org_id: string, options: CallOptions & RevisionPage = {}): Promise<readonly Device[]> =>
      this.#list('listDevicesInOrganization', { org_id }, options),
    each: (org_id: string, options: CallOptions & RevisionPage = {}): AsyncIterable<Device> =>
      this.#each('listDevicesInOrganization', { org_id }, options),
    get: (org_id: string, device_id: string, options: CallOptions = {}): Promise<Device> =>
      this.#value('readDevice', { params: { org_id, device_id }, ...options }),
    update: (
      org_id: string,
      device_id: string,
      body: UpdateDevice,
      options: WriteOptions & MayOpen = {},
    ): Promise<Device> => this.#value('updateDevice', { params: { org_id, device_id }, body, ...withQuery(options) }),
    delete: (org_id: string, device_id: string, options: WriteOptions = {}): Promise<Device> =>
      this.#value('deleteDevice', { params: { org_id, device_id }, ...options }),
    /** The groups in effect on it, and why each is. */
    groups: (org_id: string, device_id: string, options: CallOptions = {}): Promise<readonly AppliedGroup[]> =>
      this.#value('listDeviceGroups', { params: { org_id, device_id }, ...options }),
  };

  /** What agents say about themselves. */
  readonly statuses = {
    report: (org_id: string, device_id: string, body: DeviceReport, options?: CallOptions): Promise<ReportedStatus> =>
      this.#value('reportDeviceStatus', { params: { org_id, device_id }, body, ...options }),
    list: (org_id: string, options: CallOptions & Page = {}): Promise<readonly DeviceStatus[]> =>
      this.#list('listDeviceStatuses', { org_id }, options),
    each: (org_id: string, options: CallOptions & Page = {}): AsyncIterable<DeviceStatus> =>
      this.#each('listDeviceStatuses', { org_id }, options),
    convergence: (org_id: string, { signal, ...query }: CallOptions & ConvergenceQuestion = {}): Promise<Convergence> =>
      this.#value('readConvergence', { params: { org_id }, query, ...(signal && { signal }) }),
    explain: (org_id: string, query: ExplainQuestion, options: CallOptions = {}): Promise<Explanation> =>
      this.#value('explainConnection', { params: { org_id }, query, ...options }),
  };

  readonly enrollmentKeys = {
    create: (org_id: string, body: AddEnrollmentKey = {}, options: CallOptions = {}): Promise<IssuedEnrollmentKey> =>
      this.#value('createEnrollmentKey', { params: { org_id }, body, ...options }),
    list: (org_id: string, options: CallOptions & Page = {}): Promise<readonly EnrollmentKey[]> =>
      this.#list('listEnrollmentKeys', { org_id }, options),
    each: (org_id: string, options: CallOptions & Page = {}): AsyncIterable<EnrollmentKey> =>
      this.#each('listEnrollmentKeys', { org_id }, options),
    get: (org_id: string, key_id: string, options: CallOptions = {}): Promise<EnrollmentKey> =>
      this.#value('readEnrollmentKey', { params: { org_id, key_id }, ...options }),
    revoke: (org_id: string, key_id: string, options: CallOptions = {}): Promise<EnrollmentKey> =>
      this.#value('revokeEnrollmentKey', { params: { org_id, key_id }, ...options }),
  };

  /** Where alerts go: for owners. */
  readonly webhooks = {
    create: (org_id: string, body: AddWebhook, options: CallOptions = {}): Promise<MadeWebhook> =>
      this.#value('createWebhook', { params: { org_id }, body, ...options }),
    list: (org_id: string, options: CallOptions & Page = {}): Promise<readonly Webhook[]> =>
      this.#list('listWebhooks', { org_id }, options),
    get: (org_id: string, webhook_id: string, options: CallOptions = {}): Promise<Webhook> =>
      this.#value('readWebhook', { params: { org_id, webhook_id }, ...options }),
    update: (org_id: string, webhook_id: string, body: UpdateWebhook, options: CallOptions = {}): Promise<Webhook> =>
      this.#value('updateWebhook', { params: { org_id, webhook_id }, body, ...options }),
    delete: (org_id: string, webhook_id: string, options: CallOptions = {}): Promise<Webhook> =>
      this.#value('deleteWebhook', { params: { org_id, webhook_id }, ...options }),
    test: (org_id: string, webhook_id: string, options: CallOptions = {}): Promise<WebhookDelivery> =>
      this.#value('testWebhook', { params: { org_id, webhook_id }, ...options }),
    deliveries: (
      org_id: string,
      webhook_id: string,
      options: CallOptions & Page = {},
    ): Promise<readonly WebhookDelivery[]> => this.#list('listWebhookDeliveries', { org_id, webhook_id }, options),
  };

  /** Who changed what, newest first: in an organization, for its owner; on the whole server, for its administrator. */
  readonly audit = {
    list: (org_id: string, options: CallOptions & Page = {}): Promise<readonly AuditEntry[]> =>
      this.#list('listAudit', { org_id }, options),
    each: (org_id: string, options: CallOptions & Page = {}): AsyncIterable<AuditEntry> =>
      this.#each('listAudit', { org_id }, options),
    server: (options: CallOptions & Page = {}): Promise<readonly AuditEntry[]> =>
      this.#list('listServerAudit', {}, options),
  };

  /** States of groups and devices, newest first, of deleted ones too; and the way back to one. */
  readonly history = {
    group: (org_id: string, sg_id: string, options: CallOptions & Page = {}): Promise<readonly GroupState[]> =>
      this.#list('listSecurityGroupHistory', { org_id, sg_id }, options),
    device: (org_id: string, device_id: string, options: Paged = {}): Promise<readonly DevicePolicyState[]> =>
      this.#list('listDeviceHistory', { org_id, device_id }, options),
    /** The other devices that have, or had, the host name of this one: of each its newest state under that name. */
    namesakes: (org_id: string, device_id: string, options: Paged = {}): Promise<readonly DevicePolicyState[]> =>
      this.#list('listDeviceNamesakes', { org_id, device_id }, options),
    /** Makes a group what it was at a revision. */
    restore: (
      org_id: string,
      sg_id: string,
      revision: number,
      options: WriteOptions & UpdateGroup = {},
    ): Promise<WrittenGroup> =>
      this.#value('restoreSecurityGroup', { params: { org_id, sg_id }, body: { revision }, ...withQuery(options) }),
  };

  /** Groups of the organization; `list` and `get` also show the user-owned groups that the caller may read. */
  readonly groups = {
    create: (org_id: string, body: AddSecurityGroup, options: CallOptions & WriteGroup = {}): Promise<WrittenGroup> =>
      this.#value('createSecurityGroup', { params: { org_id }, body, ...withQuery(options) }),
    list: (org_id: string, options: CallOptions & GroupPage = {}): Promise<readonly SecurityGroup[]> =>
      this.#list('listSecurityGroups', { org_id }, options),
    each: (org_id: string, options: CallOptions & GroupPage = {}): AsyncIterable<SecurityGroup> =>
      this.#each('listSecurityGroups', { org_id }, options),
    get: (org_id: string, sg_id: string, options: CallOptions = {}): Promise<SecurityGroup> =>
      this.#value('readSecurityGroup', { params: { org_id, sg_id }, ...options }),
    update: (
      org_id: string,
      sg_id: string,
      body: UpdateSecurityGroup,
      options: WriteOptions & UpdateGroup = {},
    ): Promise<WrittenGroup> =>
      this.#value('updateSecurityGroup', { params: { org_id, sg_id }, body, ...withQuery(options) }),
    delete: (org_id: string, sg_id: string, options: WriteOptions & DeleteGroup = {}): Promise<SecurityGroup> =>
      this.#value('deleteSecurityGroup', { params: { org_id, sg_id }, ...withQuery(options) }),
  };

  /** Groups that the caller owns. */
  readonly userGroups = {
    create: (org_id: string, body: AddSecurityGroup, options: CallOptions & WriteGroup = {}): Promise<WrittenGroup> =>
      this.#value('createUserSecurityGroup', { params: { org_id }, body, ...withQuery(options) }),
    list: (org_id: string, options: CallOptions & GroupPage = {}): Promise<readonly SecurityGroup[]> =>
      this.#list('listUserSecurityGroups', { org_id }, options),
    each: (org_id: string, options: CallOptions & GroupPage = {}): AsyncIterable<SecurityGroup> =>
      this.#each('listUserSecurityGroups', { org_id }, options),
    get: (org_id: string, sg_id: string, options: CallOptions = {}): Promise<SecurityGroup> =>
      this.#value('readUserSecurityGroup', { params: { org_id, sg_id }, ...options }),
    update: (
      org_id: string,
      sg_id: string,
      body: UpdateSecurityGroup,
      options: WriteOptions & UpdateGroup = {},
    ): Promise<WrittenGroup> =>
      this.#value('updateUserSecurityGroup', { params: { org_id, sg_id }, body, ...withQuery(options) }),
    delete: (org_id: string, sg_id: string, options: WriteOptions & DeleteGroup = {}): Promise<SecurityGroup> =>
      this.#value('deleteUserSecurityGroup', { params: { org_id, sg_id }, ...withQuery(options) }),
  };
}
