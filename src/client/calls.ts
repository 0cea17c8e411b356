/** Owns what each operation takes and answers, as types that the compiler reads from the table of operations. */
import type { InputOf, Rows } from '../api/operations.ts';
import type { OperationId, paths } from '../api/paths.ts';
import type { Wire } from '../api/scalar.ts';

/** Clients take `after` from a link, so it is text, also where the server reads a number. */
type WithTextCursor<Query> = { readonly [Name in keyof Query]: Name extends 'after' ? string : Query[Name] };

/** Every operation but the stream, which `watch` opens. */
export type CallId = Exclude<OperationId, 'watchEvents'>;

/** What an operation takes and answers, by its row in the table of operations. */
export type Calls = {
  readonly [Id in CallId]: {
    readonly answer: Id extends ListId ? readonly Wire<Rows[Id]['answer']>[] : Wire<Rows[Id]['answer']>;
    readonly body: InputOf<Id, 'body'>;
    readonly query: WithTextCursor<InputOf<Id, 'query', object>>;
  };
};

/** The calls that answer with a list, and those that take a body. */
export type ListId = { [Id in CallId]: (typeof paths)[Id][2] extends 'list' ? Id : never }[CallId];
export type BodyId = { [Id in CallId]: Rows[Id] extends { readonly body: object } ? Id : never }[CallId];
export type Entry<Id extends ListId> = Wire<Rows[Id]['answer']>;

export type Page = Calls['listUsers']['query'];
export type RevisionPage = Calls['listDevicesInOrganization']['query'];
export type WriteGroup = Calls['createSecurityGroup']['query'];
export type UpdateGroup = Calls['updateSecurityGroup']['query'];
export type DeleteGroup = Calls['deleteSecurityGroup']['query'];
export type MayOpen = Calls['updateDevice']['query'];
export type RemoveMember = Calls['removeMember']['query'];
export type ConvergenceQuestion = Calls['readConvergence']['query'];
export type ExplainQuestion = Calls['explainConnection']['query'];

export interface CallOptions {
  readonly signal?: AbortSignal;
}
export interface WriteOptions extends CallOptions {
  /** Refuse with `precondition_failed` unless the record still has this revision (or this entity tag). */
  readonly ifMatch?: number | string;
}

export interface CreateOptions extends CallOptions {
  /** Repeat the call with the same key and body when its answer was lost: the server makes the record once, and answers as the first time. */
  readonly idempotencyKey?: string;
}

/** The calls that take an idempotency key. */
export type IdempotentId = {
  [Id in CallId]: Rows[Id] extends { readonly idempotent: string } ? Id : never;
}[CallId];
export const idempotentCalls: ReadonlySet<CallId> = new Set(
  Object.keys({
    createUser: true,
    createMyToken: true,
    createUserToken: true,
    createOrganization: true,
    addMember: true,
    createInvitation: true,
    createWebhook: true,
    createSecurityGroup: true,
    createUserSecurityGroup: true,
    createDevice: true,
    createEnrollmentKey: true,
    applyChanges: true,
  } satisfies Readonly<Record<IdempotentId, true>>) as IdempotentId[],
);

/** The options of a call: its query by the names of the wire, a signal, and `ifMatch` or `idempotencyKey` where the operation honours it. */
export type OptionsOf<Id extends CallId> = Calls[Id]['query'] &
  (Rows[Id] extends { readonly conditional: true }
    ? WriteOptions
    : Id extends IdempotentId
      ? CreateOptions
      : CallOptions);

/** The variables of paths as arguments with their names. */
interface PathArguments {
  readonly org_id: [org_id: string];
  readonly user_id: [user_id: string];
  readonly device_id: [device_id: string];
  readonly sg_id: [sg_id: string];
  readonly key_id: [key_id: string];
  readonly token_id: [token_id: string];
  readonly webhook_id: [webhook_id: string];
  readonly change_id: [change_id: string];
  readonly trial_id: [trial_id: string];
  readonly invitation_id: [invitation_id: string];
}
type ArgumentsIn<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? [...PathArguments[Name & keyof PathArguments], ...ArgumentsIn<Rest>]
  : [];
type BodyArgument<Id extends CallId> = Id extends BodyId
  ? Rows[Id] extends { readonly bodyOptional: true }
    ? [body?: Calls[Id]['body']]
    : [body: Calls[Id]['body']]
  : [];
type OptionsArgument<Options> = object extends Options ? [options?: Options] : [options: Options];

/** An operation as a function: the variables of its path in their order, its body if it takes one, then options. */
export type Call<Id extends CallId> = (
  ...given: [...ArgumentsIn<(typeof paths)[Id][1]>, ...BodyArgument<Id>, ...OptionsArgument<OptionsOf<Id>>]
) => Promise<Calls[Id]['answer']>;

/** The entries of a list one after the other. A page is asked for when the one before has been read. */
export type EachCall<Id extends ListId> = (
  ...given: [...ArgumentsIn<(typeof paths)[Id][1]>, ...OptionsArgument<OptionsOf<Id>>]
) => AsyncGenerator<Entry<Id>>;
