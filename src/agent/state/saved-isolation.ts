/**
 * Owns the text of isolations in a saved policy, so that the agent knows without the server which devices are isolated,
 * and until when.
 */
import { parseAddress, printAddress, type Address } from '../../policy/address.ts';
import { readPeers } from '../../policy/fleet/read-peers.ts';
import type { PolicyIsolation, RefusedDevice } from '../../policy/isolation/policy-isolation.ts';
import { field, isObject, type JsonObject } from '../../policy/json.ts';
import { Problems } from '../../policy/problem.ts';
import { readMembers, writeMembers } from './saved-members.ts';
import { UnusablePolicy } from './unusable-policy.ts';

export const writeIsolation = ({ own, refused }: PolicyIsolation): object => ({
  ...(own && { own: { ...own, members: writeMembers(own.members ?? { v4: [], v6: [] }) } }),
  refused: refused.map(({ addresses, ...device }) => ({
    ...device,
    addresses: addresses.map(({ family, value }) => printAddress(family, value)),
  })),
});

function readUntil(value: JsonObject): { readonly until?: number } {
  const until = field(value, 'until');
  if (until === undefined) return {};
  if (typeof until !== 'number') throw new UnusablePolicy('the end of an isolation is not a number');
  return { until };
}

function readAddress(text: unknown): Address {
  const address = typeof text === 'string' ? parseAddress(text) : undefined;
  if (address === undefined || 'fault' in address) throw new UnusablePolicy('an isolated device has no address');
  return address;
}

function readRefused(value: unknown): RefusedDevice {
  const [id, addresses] = isObject(value) ? [field(value, 'id'), field(value, 'addresses')] : [];
  if (!isObject(value) || typeof id !== 'string' || !Array.isArray(addresses)) {
    throw new UnusablePolicy('an isolated device is not in stored form');
  }
  return { id, addresses: addresses.map(readAddress), ...readUntil(value) };
}

function readOwn(value: unknown): NonNullable<PolicyIsolation['own']> {
  if (!isObject(value)) throw new UnusablePolicy('the isolation is not an object');
  const [allow, reason] = [field(value, 'allow'), field(value, 'reason')];
  const problems = new Problems();
  const isNobody = Array.isArray(allow) && allow.length === 0;
  const peers = isNobody ? [] : readPeers(allow, '/allow', problems, { most: Number.POSITIVE_INFINITY });
  if (problems.count > 0) throw new UnusablePolicy('the isolation allows what this version does not know');
  const members = readMembers(field(value, 'members'));
  return { allow: peers, members, ...readUntil(value), ...(typeof reason === 'string' && { reason }) };
}

export function readIsolation(value: unknown): PolicyIsolation {
  if (!isObject(value)) throw new UnusablePolicy('its isolation is not an object');
  const [own, refused] = [field(value, 'own'), field(value, 'refused')];
  if (!Array.isArray(refused)) throw new UnusablePolicy('its isolation has no list of devices');
  return { ...(own !== undefined && { own: readOwn(own) }), refused: refused.map(readRefused) };
}
