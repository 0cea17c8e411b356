/**
 * Owns the message with which a process reports its commits to the others of its server, and its parsing: a message
 * with one invalid part is ignored.
 */
import { isUuid, parseOrganizationId, parseUserId } from '../../../policy/ids.ts';
import type { Entry, Hint } from '../data/change-log.ts';
import { decodeHint } from './hint-text.ts';

/** A hint as it goes from process to process. */
export interface EncodedHint {
  /** By `encodeHint`. */
  readonly text: string;
  readonly logged: Hint['logged'];
}

export interface WorkerPeerMessage<T = EncodedHint> {
  /** Identifies a process among all processes of all servers. */
  readonly source: string;
  /** It holds the hints after this number, up to and including the other. */
  readonly after: number;
  readonly through: number;
  readonly hints: readonly T[];
}

type Unread = Readonly<Record<string, unknown>>;

const broken = (): never => {
  throw new TypeError('not a message of a process of this server');
};
const record = (value: unknown): Unread => (typeof value === 'object' && value !== null ? (value as Unread) : broken());
const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : broken());
const text = (value: unknown): string => (typeof value === 'string' ? value : broken());
const count = (value: unknown): number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : broken();

const isKind = (value: unknown): value is Entry['kind'] =>
  value === 'device' || value === 'security-groups' || value === 'organization';

function readEntry(value: unknown): Entry {
  const { revision, kind, type, id, json, only_for, left_at, identity, era } = record(value);
  return {
    revision: count(revision),
    kind: isKind(kind) ? kind : broken(),
    type: type === 'change' || type === 'delete' ? type : broken(),
    id: text(id),
    json: text(json),
    only_for: only_for === undefined ? undefined : parseUserId(text(only_for)),
    left_at: count(left_at),
    ...(identity === undefined ? {} : { identity: text(identity) }),
    ...(era === undefined ? {} : { era: text(era) }),
  };
}

function readHint(value: unknown): Hint {
  const { text: encoded, logged } = record(value);
  return {
    ...decodeHint(text(encoded)),
    logged: list(logged).map((one) => {
      const { organization_id, entries } = record(one);
      return { organization_id: parseOrganizationId(text(organization_id)), entries: list(entries).map(readEntry) };
    }),
  };
}

/** Undefined when it cannot be read. */
export function readMessage(value: unknown): WorkerPeerMessage<Hint> | undefined {
  try {
    const { source, after, through, hints } = record(value);
    return {
      source: isUuid(source) ? source : broken(),
      after: count(after),
      through: count(through),
      hints: list(hints).map(readHint),
    };
  } catch {
    return undefined;
  }
}
