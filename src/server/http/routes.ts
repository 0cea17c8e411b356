/** Owns the routes of the operations: every path and alias of the table passes through the same guard, body reading and handler call. */
import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { operations, type BodyOf, type Operation } from '../../api/operations.ts';
import { operationIds, pathsOf, type OperationId } from '../../api/paths.ts';
import { checkSteps, type TextLengths } from '../../api/validate.ts';
import {
  lengthsOf,
  type AdmittedRequest,
  type Call,
  type HandlerResult,
  type Handler,
  type PathVariables,
  type OrganizationServices,
} from './call.ts';
import { HttpError, refuseInvalid, StoreError, toHttpError } from '../problems.ts';
import type { SlicedWork } from '../scheduling/time-slices.ts';
import type { WorkBudget, WorkShares } from '../scheduling/work-budget.ts';
import { areParamsOf } from './guard/admit.ts';
import type { RequestGuard } from './guard/request-guard.ts';
import { idempotencyOf } from './guard/idempotency.ts';
import { HeldRight } from './guard/held-right.ts';
import { rightOf } from './guard/write-right.ts';
import { auditHandlers } from './handlers/audit.ts';
import { changeHandlers } from './handlers/changes.ts';
import { convergenceHandlers } from './handlers/convergence.ts';
import { evidenceHandlers } from './handlers/evidence.ts';
import { flowHandlers } from './handlers/flows.ts';
import { explainHandlers } from './handlers/explain.ts';
import { deviceHandlers } from './handlers/devices.ts';
import { groupHandlers } from './handlers/groups.ts';
import { historyHandlers } from './handlers/history.ts';
import { invitationHandlers } from './handlers/invitations.ts';
import { organizationHandlers } from './handlers/organizations.ts';
import { overviewHandlers } from './handlers/overview.ts';
import { simulateHandlers } from './handlers/simulate.ts';
import { usageHandlers } from './handlers/usage.ts';
import { policyTestHandlers } from './handlers/policy-tests.ts';
import { streamRoute, type StreamRouteOptions } from './handlers/stream-route.ts';
import { trialHandlers } from './handlers/trials.ts';
import { userHandlers } from './handlers/users.ts';
import { webhookHandlers } from './handlers/webhooks.ts';
import { auditEntryOf } from './observe/audit-entry.ts';
import { parseIfMatch } from './request/conditions.ts';
import { tooSlow, within } from './request/deadline.ts';
import { parseQuery } from './request/paging.ts';
import { pathOf } from './request/path.ts';

/** Every operation but the stream, which takes the socket over. */
type AnsweredId = Exclude<OperationId, 'watchEvents'>;

const handlers: { readonly [Id in AnsweredId]: Handler<Id> } = {
  ...userHandlers,
  ...organizationHandlers,
  ...invitationHandlers,
  ...deviceHandlers,
  ...convergenceHandlers,
  ...flowHandlers,
  ...explainHandlers,
  ...overviewHandlers,
  ...groupHandlers,
  ...historyHandlers,
  ...changeHandlers,
  ...trialHandlers,
  ...auditHandlers,
  ...webhookHandlers,
  ...simulateHandlers,
  ...usageHandlers,
  ...policyTestHandlers,
  ...evidenceHandlers,
};

export interface RouteOptions extends StreamRouteOptions {
  readonly services: OrganizationServices;
  readonly guard: RequestGuard;
  readonly workShares: WorkShares;
  /** Of the reading of lists. */
  readonly listShares: WorkShares;
  /** How long the database may take. */
  readonly answerTimeoutMs: number;
}

declare module 'fastify' {
  interface FastifyRequest {
    admitted: AdmittedRequest | undefined;
    /** Its body had not come completely when the caller was admitted. */
    isLate: boolean;
  }
  interface FastifyContextConfig {
    operation?: OperationId;
  }
}

const stuckMs = 60_000;

function send(operation: Operation, answer: HandlerResult, reply: FastifyReply): FastifyReply {
  if (answer.next !== undefined) reply.header('link', `<${answer.next}>; rel="next"`);
  if (answer.revision !== undefined) reply.header('etag', `"${answer.revision}"`);
  if (answer.kind === 'record' && answer.location !== undefined) reply.header('location', answer.location);
  reply.code(operation.status).type('application/json; charset=utf-8');
  if (typeof answer.json === 'string') return reply.send(answer.json);
  // Who takes nothing for this long gets no more.
  reply.raw.setTimeout(stuckMs, () => reply.raw.destroy());
  return reply.send(Readable.from(answer.json));
}

function admittedOf(request: FastifyRequest): AdmittedRequest {
  if (request.admitted === undefined) throw new Error(`${request.url} was reached without a guard`);
  return request.admitted;
}

/** Entries of arrays that are checked before anybody else gets a turn: nearly every body has fewer. */
const checkedAtOnce = 256;

/** The body in the operation's type: its schema has let it pass, or its handler reads it (the one place that says so). */
async function readBody<Id extends OperationId>(
  id: Id,
  given: unknown,
  lengths: TextLengths,
  slices: SlicedWork,
): Promise<BodyOf<Id>> {
  const { body: schema, bodyOptional, bodyReader } = operations[id];
  if (schema === undefined) return undefined as BodyOf<Id>;
  const body = given === undefined && bodyOptional === true ? {} : given;
  if (bodyReader === undefined)
    refuseInvalid(await slices.run(checkSteps(schema, body, lengths), { atOnce: checkedAtOnce }));
  return body as BodyOf<Id>;
}

/** The share of this caller; it ends with the connection, so that nobody's questions outlive their reader. */
function shareOf(
  user: string,
  { org_id }: Partial<PathVariables>,
  { raw }: FastifyReply,
  workShares: WorkShares,
): WorkBudget {
  if (org_id === undefined) throw new Error('only an operation in an organization may cost what its size is');
  const work = workShares.budgetFor({ user, organization: org_id });
  raw.once('close', () => work.end());
  return work;
}

function answerer<Id extends AnsweredId>(
  id: Id,
  { services, guard, workShares, listShares, answerTimeoutMs }: RouteOptions,
) {
  const operation = operations[id];
  const handler: Handler<Id> = handlers[id];
  const lengths = lengthsOf(services.limits);
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const admitted = admittedOf(request);
    const { principal, variables, subjects } = admitted;
    if (!areParamsOf(id, variables)) throw new Error(`${request.url} lacks variables of ${id}`);
    const { user_id } = principal;
    const query = parseQuery(id, request.query as Record<string, unknown>);
    const skipsTests = 'skip_tests' in query && query.skip_tests === true;
    if (skipsTests && subjects.byOwner !== true)
      throw new HttpError('forbidden', 'Only an owner may skip policy tests.');
    const heldBack = heldBackMs(query);
    const admit = () => guard.readmit(id, request, request.params as Record<string, unknown>);
    const right = heldBack > 0 ? new HeldRight(admitted, { log: services.store.log, admit }) : undefined;
    const work = operation.cost === 'organization' ? shareOf(user_id, variables, reply, workShares) : undefined;
    const once =
      operation.idempotent &&
      idempotencyOf(operation.idempotent, { id, principal, request, services, variables, query });
    let hasCommitted = false;
    const by: Call<Id>['by'] = {
      user_id,
      onCommitted: () => (hasCommitted = true),
      right: rightOf(id, principal, variables),
      ...(operation.effect === 'write' && { audit: auditEntryOf(id, principal, request, skipsTests) }),
      ...(skipsTests && { tests: 'skip' as const }),
      ...('dry_run' in query && query.dry_run === true && { isDryRun: true }),
    };
    const call = async (): Promise<HandlerResult> =>
      handler(
        {
          operation: id,
          principal,
          params: variables,
          subjects,
          by,
          creator: (answerOf) => (once === undefined ? by : once.creator(by, answerOf)),
          path: pathOf(request.url),
          query,
          body: await readBody(id, request.body, lengths, services.slices),
          ifMatch: operation.conditional ? parseIfMatch(request.headers['if-match']) : undefined,
          // The row says so in the type of the call, too.
          work: work as Call<Id>['work'],
          inTurn: (read) => listShares.inTurn({ user: user_id, organization: variables.org_id ?? user_id }, read),
          ...(right !== undefined && { gone: AbortSignal.any([goneSignal(reply), right.signal]) }),
        },
        services,
      );
    try {
      const answering = (once === undefined ? call() : once.answer(call)).catch((failure: unknown) => {
        // What was read for the answer failed, and the change was made: reference 7 (5).
        throw hasCommitted && saysNotMade(failure)
          ? new StoreError({ code: 'outcome_unknown' }, { cause: failure })
          : failure;
      });
      // Where an answer is worked out, it is hardly the database that is slow.
      const why = (): Error => (work?.isUnderWay ? work.late() : tooSlow());
      const answer = await within(answering, answerTimeoutMs + heldBack, operation.effect, why);
      await right?.check();
      return send(operation, answer, reply);
    } finally {
      work?.end();
      right?.end();
    }
  };
}

/** Whether the failure would tell the caller that the change was not made. */
function saysNotMade(failure: unknown): boolean {
  const { code } = toHttpError(failure);
  return ['unavailable', 'storage_full', 'rate_limited', 'too_costly'].includes(code);
}

/** Milliseconds that the caller asks the answer to be held back. */
const heldBackMs = (query: object): number =>
  'wait' in query && typeof query.wait === 'number' ? query.wait * 1_000 : 0;

/** Aborts when the connection ends before the answer. */
function goneSignal({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController();
  raw.once('close', () => gone.abort(new HttpError('malformed_request', 'The connection ended before the answer.')));
  return gone.signal;
}

/** Whether the right is judged after the body has come: a write does so in its transaction, but not an answer that is repeated. Reference 5 (15). */
const judgesAgain = (id: OperationId, { headers }: FastifyRequest): boolean =>
  operations[id].effect !== 'read' &&
  (operations[id].idempotent === undefined || headers['idempotency-key'] === undefined);

/** Registers every operation under every path it answers on. */
export function registerOperations(app: FastifyInstance, options: RouteOptions): void {
  app.decorateRequest('admitted', undefined).decorateRequest('isLate', false);
  const { guard } = options;
  for (const id of operationIds) {
    const onRequest = async (request: FastifyRequest): Promise<void> => {
      request.admitted = await guard.admit(id, request, request.params as Record<string, unknown>);
      request.isLate = operations[id].body !== undefined && !request.raw.complete;
    };
    const preHandler = async (request: FastifyRequest): Promise<void> => {
      if (request.isLate && !judgesAgain(id, request))
        request.admitted = await guard.readmit(id, request, request.params as Record<string, unknown>);
    };
    const handler = id === 'watchEvents' ? streamRoute(options, admittedOf) : answerer(id, options);
    for (const path of pathsOf(id)) {
      app.route({
        method: operations[id].method,
        url: path.replace(/\{(\w+)\}/g, ':$1'),
        config: { operation: id },
        onRequest,
        preHandler,
        handler,
      });
    }
  }
}
