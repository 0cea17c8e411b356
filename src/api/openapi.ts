/** Owns the OpenAPI 3.1 description, generated from the table of operations and its schemas. */
import { errors, problemContentType, type ErrorCode } from './codes.ts';
import { watchContentType } from './kinds.ts';
import type { Tag } from './operation-row.ts';
import { operations, type Operation } from './operations.ts';
import { operationIds } from './paths.ts';
import { ProblemBody } from './problem.ts';
import { signInPathIds, signInPaths } from './sign-in.ts';
import { apiVersion } from './version.ts';

type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
type JsonObject = { readonly [name: string]: Json };

export interface OpenApi {
  readonly openapi: '3.1.0';
  readonly info: JsonObject;
  readonly paths: { readonly [path: string]: { readonly [method: string]: JsonObject } };
  readonly components: {
    readonly schemas: JsonObject;
    readonly securitySchemes: JsonObject;
    readonly responses: JsonObject;
  };
  readonly [name: string]: unknown;
}

/** Keywords of our own that a reader of JSON Schema need not know. */
const ours = new Set(['limit', 'multiline']);

/** Collects every named schema it meets, and refers to it by name. */
class Components {
  readonly schemas: Record<string, Json> = {};

  refer(value: unknown): Json {
    if (Array.isArray(value)) return value.map((item) => this.refer(item));
    if (typeof value !== 'object' || value === null) return value as Json;
    const { $id, ...rest } = value as { readonly $id?: unknown };
    if (typeof $id !== 'string') return this.#copy(rest);
    if (!($id in this.schemas)) {
      this.schemas[$id] = {};
      this.schemas[$id] = this.#copy(rest);
    }
    return { $ref: `#/components/schemas/${$id}` };
  }

  #copy(object: object): JsonObject {
    const kept = Object.entries(object).filter(([name, inner]) => !ours.has(name) || typeof inner === 'object');
    const { type, maximum = Infinity } = object as { readonly type?: unknown; readonly maximum?: number };
    // Without it, generators of clients take 32 bits.
    const format = type === 'integer' && maximum >= 2 ** 31 ? { format: 'int64' } : {};
    return { ...Object.fromEntries(kept.map(([name, inner]) => [name, this.refer(inner)])), ...format };
  }
}

const header = (description: string, schema: JsonObject = { type: 'string' }): JsonObject => ({ description, schema });

const headers = {
  'X-Request-Id': header("Names this request in the server's log."),
  ETag: header('`"<revision>"` of the record.'),
  Location: header('Path of the new record.', { type: 'string', format: 'uri-reference' }),
  Link: header('`<…>; rel="next"` while more records follow.'),
  'Heartbeat-Interval': header('Seconds of silence after which the server sends a heartbeat.', {
    type: 'number',
    exclusiveMinimum: 0,
  }),
  Upgrade: header('`ringfence-watch`', { type: 'string', const: 'ringfence-watch' }),
  Connection: header('`Upgrade`'),
  'Preference-Applied': header(
    '`report-lines`, `history-tokens`, `complete-lines`, `end-when-not-ready`, and `signs-of-life=<seconds>, heartbeat=<seconds>`, where the request prefers these.',
  ),
  'Retry-After': header('Seconds to wait.', { type: 'integer', minimum: 0 }),
  'WWW-Authenticate': header('How to authenticate.'),
};

const retried: ReadonlySet<ErrorCode> = new Set(['rate_limited', 'unavailable', 'storage_full', 'outcome_unknown']);

function failure(status: number, components: Components): JsonObject {
  const codes = (Object.keys(errors) as ErrorCode[]).filter((code) => errors[code][0] === status);
  return {
    description: codes.map((code) => `\`${code}\`: ${errors[code][1]}`).join('. '),
    headers: {
      'X-Request-Id': headers['X-Request-Id'],
      ...(status === 401 ? { 'WWW-Authenticate': headers['WWW-Authenticate'] } : {}),
      ...(codes.some((code) => retried.has(code)) ? { 'Retry-After': headers['Retry-After'] } : {}),
    },
    content: { [problemContentType]: { schema: components.refer(ProblemBody) } },
  };
}

function success(operation: Operation, components: Components): JsonObject {
  const { kind, schema, etag } = operation.answer;
  const record = components.refer(schema);
  const described = {
    created: 'The new record.',
    record: 'The record.',
    list: 'The records: in the order that the summary of the operation names, or else in order of creation.',
    deleted: 'The record as last known; where it has a revision, that of the deletion.',
    stream: 'One JSON document a line, for as long as the client stays; a lone line feed is a heartbeat.',
  } as const;
  return {
    description: described[kind],
    headers: {
      'X-Request-Id': headers['X-Request-Id'],
      ...(etag ? { ETag: headers.ETag } : {}),
      ...(kind === 'created' ? { Location: headers.Location } : {}),
      ...(kind === 'list' ? { Link: headers.Link } : {}),
      ...(kind === 'stream'
        ? {
            'Heartbeat-Interval': headers['Heartbeat-Interval'],
            'Preference-Applied': headers['Preference-Applied'],
          }
        : {}),
    },
    content: {
      [kind === 'stream' ? watchContentType : 'application/json']: {
        schema: kind === 'list' ? { type: 'array', items: record } : record,
      },
    },
  };
}

const tags: { readonly [Name in Tag | 'sign-in']: string } = {
  users: 'People and what they sign in with: users, tokens and enrollment keys.',
  organizations: 'Organizations, their members and invitations.',
  devices: 'Devices, what they report, and whether their policy is in force.',
  'security groups': 'Groups, their rules, and what uses them.',
  changes: 'Previews, change sets, trials, tests and the history.',
  events: 'The stream of changes.',
  alerts: 'Webhooks.',
  audit: 'Who did what, and evidence of it.',
  'sign-in': 'How browsers sign in and out.',
};

/** Of a stream that goes both ways. A media type belongs to a body, and after 101 there is none. */
const upgraded: JsonObject = {
  description:
    'A stream that goes both ways, for a request with `Upgrade: ringfence-watch` and `Prefer: signs-of-life`: the same documents, and line feeds of the reader as its signs of life.',
  headers: {
    'X-Request-Id': headers['X-Request-Id'],
    Connection: headers.Connection,
    Upgrade: headers.Upgrade,
    'Heartbeat-Interval': headers['Heartbeat-Interval'],
    'Preference-Applied': headers['Preference-Applied'],
  },
};

const streamPreferences = {
  name: 'Prefer',
  in: 'header',
  required: false,
  description:
    'A list of `report-lines` (documents of the type `report`), `complete-lines` (documents of the type `complete`), `history-tokens` (the token of each revision, and documents of the type `heartbeat`), ' +
    '`end-when-not-ready` (the stream ends when the server cannot reach its database) and `signs-of-life` (the reader shows that it is there).',
  schema: { type: 'string' },
};

/** What the variables of paths name. */
const pathVariables: Readonly<Record<string, string>> = {
  org_id: 'The organization.',
  device_id: 'The device.',
  sg_id: 'The security group.',
  user_id: 'The user.',
  token_id: 'The token.',
  key_id: 'The enrollment key.',
  invitation_id: 'The invitation.',
  change_id: 'The change set.',
  trial_id: 'The trial.',
  webhook_id: 'The webhook.',
};

function parameters(operation: Operation, components: Components): Json[] {
  const inPath = operation.params.map((name) => ({
    name,
    in: 'path',
    required: true,
    description: pathVariables[name] ?? name,
    schema: { type: 'string', format: 'uuid' },
  }));
  const needed: ReadonlySet<string> = new Set(operation.query?.required);
  const inQuery = Object.entries(operation.query?.properties ?? {}).map(([name, schema]) => ({
    name,
    in: 'query',
    required: needed.has(name),
    ...('description' in schema && { description: String(schema.description) }),
    schema: components.refer(schema),
  }));
  const inHeader = operation.conditional
    ? [
        {
          name: 'If-Match',
          in: 'header',
          required: false,
          description: 'Only if the record still has one of these ETags; `*` for any.',
          schema: { type: 'string' },
        },
      ]
    : [];
  const idempotencyKey = operation.idempotent
    ? [
        {
          name: 'Idempotency-Key',
          in: 'header',
          required: false,
          description:
            'Makes it safe to repeat the request when its answer was lost: for 24 hours, the same key with the same body gets the first answer again, and nothing is written twice. ' +
            'Use a new random key, such as a UUID, for each create.',
          schema: { type: 'string', minLength: 1, maxLength: 255 },
        },
      ]
    : [];
  return [
    ...inPath,
    ...inQuery,
    ...inHeader,
    ...idempotencyKey,
    ...(operation.answer.kind === 'stream' ? [streamPreferences] : []),
  ];
}

const effects = {
  read: 'Changes nothing: a read-only token may do it.',
  write: 'Changes something, and leaves an entry in the audit.',
  report: 'A device reports about itself, which leaves no entry in the audit.',
} as const;

/** What the columns of its row say about an operation. */
function describeRow({ effect, cost, conditional, idempotent, answer }: Operation): string {
  const sentences = [
    effects[effect],
    ...(conditional ? ['With `If-Match`, it is done only if the record is still that one.'] : []),
    ...(idempotent === undefined ? [] : ['With an `Idempotency-Key`, it can be repeated safely.']),
    ...(cost === 'organization'
      ? [
          'Its work grows with the organization: only a few run at a time (429), and one that would take too long is refused (422 `too_costly`).',
        ]
      : []),
    ...(answer.kind === 'stream'
      ? [
          'The answer has no end: a client that waits for all of it never returns. Read it line by line, and let a parser see one line at a time; ' +
            'empty lines are heartbeats. When it ends, ask again with the last `revision` as `gt_revision`.',
        ]
      : []),
  ];
  return sentences.join(' ');
}

function describe(operation: Operation, components: Components): JsonObject {
  const { id, tag, summary, body, bodyOptional, status, failures } = operation;
  const responses = failures.map((failed) => [String(failed), { $ref: `#/components/responses/${failed}` }]);
  return {
    operationId: id,
    tags: [tag],
    summary,
    description: describeRow(operation),
    parameters: parameters(operation, components),
    ...(body === undefined
      ? {}
      : {
          requestBody: {
            required: bodyOptional !== true,
            content: { 'application/json': { schema: components.refer(body) } },
          },
        }),
    responses: {
      ...(operation.answer.kind === 'stream' ? { 101: upgraded } : {}),
      [String(status)]: success(operation, components),
      ...Object.fromEntries(responses),
    },
  };
}

/** The ways in and out of a browser's session. */
function describeSignIn(id: (typeof signInPathIds)[number], components: Components): JsonObject {
  const { summary, query, answer, failures, failurePages, needsSession } = signInPaths[id];
  const page = { description: 'A page with the reason.', content: { 'text/html': { schema: { type: 'string' } } } };
  const responses = failures.map((failed): [string, Json] => [
    String(failed),
    failurePages?.includes(failed) ? page : { $ref: `#/components/responses/${failed}` },
  ]);
  const good =
    answer === 'redirect'
      ? { 302: { description: 'The way on.', headers: { Location: headers.Location } } }
      : {
          200: {
            description: 'The record.',
            headers: { 'X-Request-Id': headers['X-Request-Id'] },
            content: { 'application/json': { schema: components.refer(answer) } },
          },
        };
  return {
    operationId: id,
    tags: ['sign-in'],
    summary,
    description:
      needsSession === true
        ? 'For the session of a browser.'
        : 'Needs no credential. It is a way of browsers, and no operation of the API.',
    security: needsSession === true ? [{ session: [] }] : [],
    parameters: Object.entries(query).map(([name, description]) => ({
      name,
      in: 'query',
      required: false,
      description,
      schema: { type: 'string' },
    })),
    responses: { ...good, ...Object.fromEntries(responses) },
  };
}

/** The whole API as OpenAPI 3.1, with canonical paths. */
export function openApi(options: { readonly version?: string } = {}): OpenApi {
  const components = new Components();
  const paths: Record<string, Record<string, JsonObject>> = {};
  const statuses = new Set<number>();
  for (const id of operationIds) {
    const operation = operations[id];
    (paths[operation.path] ??= {})[operation.method.toLowerCase()] = describe(operation, components);
    for (const status of operation.failures) statuses.add(status);
  }
  for (const id of signInPathIds) {
    const { method, path, failures } = signInPaths[id];
    (paths[path] ??= {})[method.toLowerCase()] = describeSignIn(id, components);
    for (const status of failures) statuses.add(status);
  }
  const responses = Object.fromEntries([...statuses].map((status) => [String(status), failure(status, components)]));
  return {
    openapi: '3.1.0',
    info: {
      title: 'Ringfence',
      version: options.version ?? apiVersion,
      description:
        'Security groups for fleets of devices, and the stream of their changes. Every path also answers without `/api`, ' +
        'and `user` and `users` are the same segment. Errors are problem+json (RFC 9457).',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    tags: Object.entries(tags).map(([name, text]) => ({ name, description: text })),
    security: [{ bearer: [] }, { session: [] }],
    paths,
    components: {
      schemas: components.schemas,
      responses,
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description:
            'A user token `rf_user_…`, a device token `rf_device_…`, an enrollment key `rf_enroll_…` or an access token of an ' +
            'identity provider.',
        },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: '__Host-ringfence-session',
          description:
            'The session of a browser that signed in at `/api/auth/login` (over plain HTTP the name is `ringfence-session`). ' +
            'Every request but GET also needs the header `X-Ringfence-Csrf: 1`.',
        },
      },
    },
  };
}
