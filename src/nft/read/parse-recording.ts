/** Owns the way back from nft's JSON to the parts of rules about the state of connections, and to those that record and answer packets. */
import { field, isObject } from '../../policy/json.ts';
import type { Family } from '../../policy/rule.ts';
import { node, type AddressSide, type Match, type RecordTuple, type Reject } from '../ast.ts';
import { isObjectName } from '../names.ts';
import { isNumberBetween, tagged } from './json.ts';

/** Far address and protocol, and the port where the set has one. */
const portOf = (value: unknown): RecordTuple['port'] | undefined => {
  const ct = tagged(value, 'ct');
  if (isObject(ct)) return field(ct, 'key') === 'proto-dst' && field(ct, 'dir') === 'original' ? 'original' : undefined;
  const payload = tagged(value, 'payload');
  return isObject(payload) && field(payload, 'protocol') === 'th' && field(payload, 'field') === 'dport'
    ? 'packet'
    : undefined;
};

/** One counter for each element, and nothing else. */
const countsElements = (statements: unknown): boolean =>
  Array.isArray(statements) && statements.length === 1 && tagged(statements[0], 'counter') !== undefined;

/** `addressKey` reads which address of a packet a payload is. */
export function parseRecord(
  expression: unknown,
  addressKey: (payload: unknown) => { readonly family: Family; readonly side: AddressSide } | undefined,
): RecordTuple | undefined {
  const update = tagged(expression, 'set');
  if (!isObject(update) || field(update, 'op') !== 'update') return undefined;
  const statements = field(update, 'stmt');
  if (statements !== undefined && !countsElements(statements)) return undefined;
  const counting = statements === undefined ? ({ uncounted: true } as const) : {};
  const name = field(update, 'set');
  const set = typeof name === 'string' && name.startsWith('@') ? name.slice(1) : '';
  const parts = tagged(field(update, 'elem'), 'concat');
  if (!isObjectName(set) || !Array.isArray(parts) || parts.length < 2 || parts.length > 3) return undefined;
  const [address, protocol, last] = parts as readonly unknown[];
  const key = addressKey(tagged(address, 'payload'));
  if (key === undefined || tagged(tagged(protocol, 'meta'), 'key') !== 'l4proto') return undefined;
  if (parts.length === 2) return node({ set, ...key, ...counting });
  const port = portOf(last);
  return port && node({ set, ...key, port, ...counting });
}

export function parseReject(expression: unknown): Reject | undefined {
  const reject = tagged(expression, 'reject');
  if (!isObject(reject)) return undefined;
  const type = field(reject, 'type');
  if (type === 'tcp reset') return node({ kind: 'reject', with: 'tcp-reset' });
  return type === 'icmpx' && field(reject, 'expr') === 'admin-prohibited'
    ? node({ kind: 'reject', with: 'admin-prohibited' })
    : undefined;
}

export function parseRate(expression: unknown): Match | undefined {
  const limit = tagged(expression, 'limit');
  if (!isObject(limit) || field(limit, 'per') !== 'second' || field(limit, 'inv') === true) return undefined;
  const [perSecond, burst] = [field(limit, 'rate'), field(limit, 'burst')];
  const isCount = (value: unknown): value is number => isNumberBetween(value, 1, 1_000_000);
  return isCount(perSecond) && isCount(burst) ? node({ kind: 'rate', perSecond, burst }) : undefined;
}

/** The state of connection tracking: a word, alone or in a list, or the two words of what is established. */
export function parseState(right: unknown): Match | undefined {
  const states = new Set(Array.isArray(right) ? (right as readonly unknown[]) : [right]);
  if (states.size === 1 && states.has('new')) return node({ kind: 'new' });
  const isEstablished = states.size === 2 && states.has('established') && states.has('related');
  return isEstablished ? node({ kind: 'established' }) : undefined;
}
