/** Owns the request and response types of every operation, derived from the table for routes, OpenAPI, rights and their tests. */
import type { TSchema } from 'typebox';
import { errors, type ErrorCode } from './codes.ts';
import type { Row } from './operation-row.ts';
import { rows } from './operation-table.ts';
import { operationIds, pathParams, paths, type AnswerKind, type Method, type OperationId } from './paths.ts';
import type { Wire } from './scalar.ts';

/** A success as the wire has it. */
export interface SuccessResponse {
  readonly kind: AnswerKind;
  readonly schema: TSchema;
  readonly etag: boolean;
}

export interface Operation extends Omit<Row, 'answer' | 'etag'> {
  readonly id: OperationId;
  readonly method: Method;
  /** Canonical path. */
  readonly path: string;
  /** Names of its path variables, all UUIDs. */
  readonly params: readonly string[];
  readonly answer: SuccessResponse;
  readonly status: 200 | 201;
  /** Every status it may answer with on failure, ascending. */
  readonly failures: readonly number[];
}

function failuresOf(row: Row, params: readonly string[]): readonly number[] {
  const codes: ErrorCode[] = [
    'malformed_request',
    'unauthenticated',
    'forbidden',
    'not_acceptable',
    'rate_limited',
    'unavailable',
  ];
  if (params.length > 0) codes.push('not_found');
  if (row.body !== undefined) codes.push('payload_too_large', 'unsupported_media_type', 'invalid');
  if (row.query !== undefined) codes.push('invalid');
  if (row.conditional) codes.push('precondition_failed');
  if (row.idempotent) codes.push('idempotency_key_reused');
  if (row.idempotent === 'secret') codes.push('idempotency_answer_sealed');
  if (row.cost === 'organization') codes.push('too_costly');
  codes.push(...(row.fails ?? []));
  return [...new Set(codes.map((code) => errors[code][0]))].toSorted((a, b) => a - b);
}

function operation(id: OperationId): Operation {
  const [method, path, kind] = paths[id];
  const params = pathParams(id);
  const row: Row = rows[id];
  const { answer: schema, etag = false, ...facts } = row;
  return {
    ...facts,
    id,
    method,
    path,
    params,
    answer: { kind, schema, etag },
    status: kind === 'created' ? 201 : 200,
    failures: failuresOf(row, params),
  };
}

/** Every operation by its id, in the order of the paths: rows of several files stand in no order of their own. */
export const operations = Object.fromEntries(operationIds.map((id) => [id, operation(id)])) as Record<
  OperationId,
  Operation
>;

export type Rows = typeof rows;

/** What an operation takes as its query or body, by the schema in its row; `None` where the row has no such column. */
export type InputOf<Id extends OperationId, Column extends 'query' | 'body', None = undefined> = Rows[Id] extends {
  readonly [Name in Column]: infer Schema extends TSchema;
}
  ? Wire<Schema>
  : None;

/** What the work of an operation grows with. */
export type CostOf<Id extends OperationId> = Rows[Id]['cost'];

export type QueryOf<Id extends OperationId> = InputOf<Id, 'query', Readonly<Record<string, never>>>;

/** An operation's body by its schema; as it came, where the handler itself reads it. */
export type BodyOf<Id extends OperationId> = Rows[Id] extends { readonly bodyReader: 'handler' }
  ? unknown
  : InputOf<Id, 'body'>;
