/** Owns what a handler receives and returns: requests and responses that do not depend on the framework. */
import type { Limits } from '../../policy/limits.ts';
import type {
  ChangeSetId,
  DeviceId,
  EnrollmentKeyId,
  GroupId,
  InvitationId,
  OrganizationId,
  TokenId,
  TrialId,
  UserId,
  WebhookId,
} from '../../policy/ids.ts';
import type { BodyOf, CostOf, QueryOf } from '../../api/operations.ts';
import type { OperationId, ParamNames } from '../../api/paths.ts';
import type { TextLengths } from '../../api/validate.ts';
import type { Convergence } from '../convergence/contract.ts';
import type { Sampler } from '../convergence/sampler.ts';
import type { Preview } from '../preview/preview.ts';
import type { ClaimedRules } from '../usage/claimed-rules.ts';
import type { Principal } from '../identity/authenticate.ts';
import type { Random } from '../identity/secret.ts';
import type { DeviceRecord, EnrollmentKeyRecord, GroupRecord, Stored, TokenRecord } from '../store/data/records.ts';
import type { Actor } from '../store/data/actor.ts';
import type { SlicedWork } from '../scheduling/time-slices.ts';
import type { WorkBudget } from '../scheduling/work-budget.ts';
import type { Store } from '../store/open.ts';
import type { StreamQuota } from '../limits/stream-quota.ts';
import type { WebhookHost } from '../limits/webhook-hosts.ts';

/** Every variable that a path may have, each parsed. */
export interface PathVariables {
  readonly org_id: OrganizationId;
  readonly sg_id: GroupId;
  readonly device_id: DeviceId;
  readonly user_id: UserId;
  readonly token_id: TokenId;
  readonly key_id: EnrollmentKeyId;
  readonly webhook_id: WebhookId;
  readonly change_id: ChangeSetId;
  readonly trial_id: TrialId;
  readonly invitation_id: InvitationId;
}

/** The variables of an operation's path. */
export type Params<Id extends OperationId> = Readonly<Pick<PathVariables, ParamNames<Id>>>;

/** The records that the guard has already read, so that a handler need not read them again. */
export interface Subjects {
  /** Whether the caller is an owner of the organization, with a user's credential. */
  readonly byOwner?: true;
  /** Whose the thing is that the path names; undefined for an organization's own group. */
  readonly user_id?: UserId | undefined;
  readonly group?: Stored<GroupRecord>;
  /** As last known, with the revision of its deletion. */
  readonly deletedGroup?: Stored<GroupRecord>;
  readonly device?: Stored<DeviceRecord>;
  readonly token?: TokenRecord;
  readonly key?: EnrollmentKeyRecord;
}

/** `If-Match`: absent, `*`, or the revisions named; entity tags that can be no revision of ours match nothing and are left out. */
export type IfMatch = undefined | '*' | readonly number[];

/** An admitted request: the caller, the path variables, and the records that were read. */
export interface AdmittedRequest {
  readonly principal: Principal;
  readonly variables: Partial<PathVariables>;
  readonly subjects: Subjects;
}

/** One request for one operation, with everything in the operation's own types. */
export interface Call<Id extends OperationId> {
  readonly operation: Id;
  readonly principal: Principal;
  /** The caller as the store knows it. Every write passes it to the store, which writes the audit entry with it (reference 4.7 (1)). */
  readonly by: Actor;
  /**
   * The caller of a create. Where the request has an `Idempotency-Key`, the store records the answer with the create: `answerOf` builds it from
   * what the store made, before warnings are added.
   */
  readonly creator: <Made>(answerOf: (made: Made) => RecordResult) => Actor;
  readonly params: Params<Id>;
  /** Path as asked for, without the query. */
  readonly path: string;
  readonly query: QueryOf<Id>;
  readonly body: BodyOf<Id>;
  readonly ifMatch: IfMatch;
  readonly subjects: Subjects;
  /** What the request may cost; for operations whose row says that their work grows with the organization. */
  readonly work: CostOf<Id> extends 'organization' ? WorkBudget : undefined;
  /** Reads a part of a list once the caller has a place for it: so there are never more than a few in memory. */
  readonly inTurn: <T>(read: () => Promise<T>) => Promise<T>;
  /** For a held answer only: aborts when the connection or the caller's right has ended. */
  readonly gone?: AbortSignal;
}

/** A page of a list: its rows, and where the next page starts if there is one. */
export interface ListResult {
  readonly kind: 'list';
  /** In parts, where the whole is too much to hold for a reader that does not keep up. */
  readonly json: string | AsyncIterable<string>;
  readonly next?: string;
  /** The revision of a list that is written as a whole. */
  readonly revision?: number;
}

export interface RecordResult {
  readonly kind: 'record';
  /** In parts, as of a list, where it holds one that may be long. */
  readonly json: string | AsyncIterable<string>;
  readonly revision?: number;
  /** Canonical path of what was created. */
  readonly location?: string;
  /** Where the record's next page starts, if it has pages. */
  readonly next?: string;
}

export type HandlerResult = ListResult | RecordResult;

/** The services that every handler may use. */
export interface Services {
  readonly store: Store;
  /** For answers that are held back. */
  readonly streamQuota: StreamQuota;
  readonly sampler: Pick<Sampler, 'see'>;
  readonly receipts: {
    reported(org: OrganizationId): void;
    /** Asks all devices of the organization to report once they reflect the revision. */
    ask(org: OrganizationId, revision: number, devices?: readonly DeviceId[]): void;
  };
  /** Packets that a device refused were reported. */
  readonly onRefused: (organization: OrganizationId, packets: number) => void;
  /** Counts, by caller, the users that it asked for and that do not exist: the seconds to wait, or 0. */
  readonly unknownUsers: { wait(user: string): number; take(user: string): number };
  /** For work that grows with a request and with nothing else. */
  readonly slices: SlicedWork;
  readonly clock: () => number;
  readonly random: Random;
  /** The age at which a device's token is to be renewed; 0: never. */
  readonly tokenMaxAgeMs: number;
  readonly limits: Limits;
  /** The hosts that webhooks may reach. */
  readonly webhookHosts: readonly WebhookHost[];
  /** The URL at which people and devices reach this server; undefined when the operator has not set one. */
  readonly publicUrl: string | undefined;
  /** The identity providers at which people may sign in. */
  readonly issuers: readonly string[];
}

/** For operations whose row says that they cost what is worked out once for all who ask. */
export interface SharedServices extends Services {
  readonly convergence: Convergence;
  /** What of an agent's report of rules counts. */
  readonly claimedRules: Pick<ClaimedRules, 'read'>;
}

/** For operations whose row says that each request costs what the organization's size is: they have a `WorkBudget`. */
export interface OrganizationServices extends SharedServices {
  readonly preview: Preview;
  /** Waits until the memory of this process has room for the rules of the organization once more, for an answer that reads them for itself. Gives what is to be called at its end. */
  readonly enterOnce: (org: OrganizationId) => Promise<() => void>;
}

interface ServicesByCost {
  readonly fixed: Services;
  readonly shared: SharedServices;
  readonly organization: OrganizationServices;
}

export type Handler<Id extends OperationId> = (
  call: Call<Id>,
  services: ServicesByCost[CostOf<Id>],
) => Promise<HandlerResult>;

export const lengthsOf = (limits: Limits): TextLengths => ({
  name: limits.nameLength,
  description: limits.descriptionLength,
});

/** The answer for a device or group, whose text the store keeps ready. */
export const stored = (thing: Stored<unknown>, location?: string): RecordResult => ({
  kind: 'record',
  json: thing.json,
  revision: thing.revision,
  ...(location === undefined ? {} : { location }),
});

export const record = (value: object, more: { revision?: number; location?: string } = {}): RecordResult => ({
  kind: 'record',
  json: JSON.stringify(value),
  ...more,
});
