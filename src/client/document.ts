/** Owns the reading of one watch document (reference 2.6): input from the network is checked before it is used. */
import type { WatchKind } from '../api/kinds.ts';
import type { DepartedGroup, Watched, WatchedByIdentity, WatchedId, WatchItem } from '../api/watch.ts';
import { isUuid } from '../policy/ids.ts';
import { RingfenceError } from './error.ts';
import { badAnswer } from './request.ts';
import { isObject } from '../policy/json.ts';

/**
 * One document of the stream. `kind` is always set, even where the wire leaves it out. `R` maps each kind to its
 * records: complete ones, or devices by identity.
 */
export type WatchEvent<K extends WatchKind = WatchKind, R extends WatchedByIdentity = Watched> = K extends WatchKind
  ? ChangeEvent<K, R> | DeleteEvent<K, R> | TailEvent<K>
  : never;

/** The resource is there, in this state. */
export interface ChangeEvent<K extends WatchKind, R extends WatchedByIdentity = Watched> {
  readonly type: 'change';
  readonly kind: K;
  readonly id: WatchedId[K];
  readonly revision: number;
  readonly token?: string | undefined;
  readonly value: R[K];
}

/** The resource was deleted, or (with only its id given) has left the reader's view. */
export interface DeleteEvent<K extends WatchKind, R extends WatchedByIdentity = Watched> {
  readonly type: 'delete';
  readonly kind: K;
  readonly id: WatchedId[K];
  readonly revision: number;
  readonly token?: string | undefined;
  readonly value: R[K] | (K extends 'security-groups' ? DepartedGroup : never);
}

/** The initial set of this kind is complete. Where tokens are asked for, it says up to which revision. */
export interface TailEvent<K extends WatchKind> {
  readonly type: 'tail';
  readonly kind: K;
  readonly revision?: number | undefined;
  readonly token?: string | undefined;
}

/** A revision up to which everything has come, and its token (reference 4.3 (28)). */
export interface StreamPosition {
  readonly revision: number;
  readonly token?: string | undefined;
}

export const isRevision = (value: unknown): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
export const isToken = (value: unknown): value is string | undefined =>
  value === undefined || (typeof value === 'string' && value.length > 0 && value.length <= 64);

const isText = (value: unknown): boolean => typeof value === 'string';
const isFlag = (value: unknown): boolean => typeof value === 'boolean';
const isAbsentOr =
  (check: (value: unknown) => boolean) =>
  (value: unknown): boolean =>
    value === undefined || check(value);
const isListOf =
  (check: (value: unknown) => boolean) =>
  (value: unknown): boolean =>
    Array.isArray(value) && value.every(check);
const isPort = (value: unknown): boolean => typeof value === 'number' && Number.isInteger(value);
const isRule = (value: unknown): boolean =>
  isObject(value) &&
  isText(value['ip_protocol']) &&
  isPort(value['from_port']) &&
  isPort(value['to_port']) &&
  isAbsentOr(isListOf(isText))(value['ip_ranges']);
const isRules = isAbsentOr(isListOf(isRule));

type Shape = readonly (readonly [name: string, check: (value: unknown) => boolean])[];

const identity: Shape = Object.entries({
  hostname: isText,
  tunnel_ip: isText,
  addresses: isAbsentOr(isListOf(isText)),
  labels: isAbsentOr(isListOf(isText)),
  security_groups: isAbsentOr(isListOf(isUuid)),
});

/** The fields that programs rely on. Others may come (a newer server) and are passed on unread. */
const shapes: { readonly [K in WatchKind]: Shape } = {
  device: [...Object.entries({ user_id: isUuid, public_key: isText, relay: isFlag }), ...identity],
  'security-groups': Object.entries({
    group_name: isText,
    group_description: isText,
    user_id: isAbsentOr(isUuid),
    is_default: isAbsentOr(isFlag),
    inbound_rules: isRules,
    outbound_rules: isRules,
  }),
};

const organizationField: { readonly [K in WatchKind]: string } = {
  device: 'organization_id',
  'security-groups': 'org_id',
};

/** As deep as a document of the stream may nest. Those of the protocol nest six deep. */
const deepest = 32;

/**
 * Whether a JSON text nests deeper than the limit. This is checked before parsing, because a deep value takes much
 * memory, and walking it overflows the stack.
 */
function nestsDeep(text: string): boolean {
  // A text with few brackets cannot nest deep. This settles nearly all documents at a fraction of the cost.
  if (!hasMore(text, '[', deepest / 2) && !hasMore(text, '{', deepest / 2)) return false;
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at];
    if (letter === '"') at = endOfString(text, at);
    else if (letter === '[' || letter === '{') depth += 1;
    else if (letter === ']' || letter === '}') depth -= 1;
    if (depth > deepest) return true;
  }
  return false;
}

function hasMore(text: string, letter: string, most: number): boolean {
  let count = 0;
  for (let at = text.indexOf(letter); at >= 0; at = text.indexOf(letter, at + 1)) {
    count += 1;
    if (count > most) return true;
  }
  return false;
}

/** As many values as a document may have, about: lists, objects and numbers of few bytes take much memory. A group of 16 MiB has fewer. */
const mostValues = 1_000_000;

/** Where the string that begins here ends. */
function endOfString(text: string, from: number): number {
  let at = text.indexOf('"', from + 1);
  while (at > 0 && isEscaped(text, at)) at = text.indexOf('"', at + 1);
  return at < 0 ? text.length : at;
}

function isEscaped(text: string, at: number): boolean {
  let slashes = 0;
  while (text[at - 1 - slashes] === '\\') slashes += 1;
  return slashes % 2 === 1;
}

export interface DocumentReader {
  /** The document on this line; throws `bad_answer` on anything else. */
  (line: string): WatchEvent;
}

/** A reader for the stream of one organization, of the items asked for. */
export function documentReader(
  organization: string,
  items: readonly Pick<WatchItem, 'kind' | 'view'>[],
): DocumentReader {
  const organizationId = organization.toLowerCase();
  const kinds = items.map(({ kind }) => kind);
  const byIdentity = new Set(items.filter(({ view }) => view === 'identity').map(({ kind }) => kind));
  const only = kinds.length === 1 ? kinds[0] : undefined;
  /** The record's id and revision. */
  const readRecord = (kind: WatchKind, type: 'change' | 'delete', value: unknown): RecordPlace => {
    if (!isObject(value)) return refuse('has no value');
    const { id, revision } = value;
    if (!isUuid(id)) return refuse('has no id');
    if (!isRevision(revision)) return refuse('has no revision');
    // By identity a document does not say whose it is.
    const isIdentity = byIdentity.has(kind);
    if (!isIdentity && value[organizationField[kind]] !== organizationId)
      return refuse('belongs to another organization');
    const shape = isIdentity ? identity : shapes[kind];
    const wrong = type === 'change' ? shape.find(([name, check]) => !check(value[name])) : undefined;
    return wrong === undefined ? { id: id.toLowerCase(), revision } : refuse(`has a wrong ${wrong[0]}`);
  };

  return (line) => {
    const document = parseBounded(line);
    if (!isObject(document)) return refuse('is not an object');
    const { type, value, token } = document;
    const kind = kinds.find((requested) => requested === (document['kind'] ?? only));
    if (kind === undefined) return refuse('has a kind that was not requested');
    if (!isToken(token)) return refuse('has a wrong token');
    if (type === 'tail') {
      const { revision } = document;
      if (revision === undefined) return { type, kind };
      return isRevision(revision) ? { type, kind, revision, token } : refuse('has a wrong revision');
    }
    if (type !== 'change' && type !== 'delete') return refuse('has a type that this client does not know');
    const event = { type, kind, ...readRecord(kind, type, value), value };
    return (token === undefined ? event : { ...event, token }) as unknown as WatchEvent;
  };
}

interface RecordPlace {
  readonly id: string;
  readonly revision: number;
}

const refuse = (why: string): never => {
  throw badAnswer(`a document of the stream ${why}`);
};

/** The line as JSON, if it is neither too large nor too deep. */
function parseBounded(line: string): unknown {
  if (line.length > mostValues && hasMore(line, ',', mostValues)) {
    const message = `a document of the stream has more than ${mostValues} values`;
    throw new RingfenceError({ code: 'document_too_large', message });
  }
  if (nestsDeep(line)) return refuse(`nests deeper than ${deepest}`);
  try {
    return JSON.parse(line);
  } catch (cause) {
    throw badAnswer('a line of the stream is not JSON', undefined, cause);
  }
}
