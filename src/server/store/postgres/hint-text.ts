/** Owns hints as text, between servers and between the processes of one: short, and such that versions may differ. */
import { parseDeviceId, parseOrganizationId, parseTokenId, parseUserId } from '../../../policy/ids.ts';
import type { Hint } from '../contract/change-log.ts';

/**
 * On the wire: a letter, then ids. `o` news in an organization, `c` a dead credential, `m` a removed member, `d` a deleted organization, `r`
 * receipts in an organization, `w` somebody waits for them, `a` its devices and `p` one device are asked for theirs, for a revision. What
 * transactions have logged is no part of it.
 */
export function encodeHint(hint: Hint): readonly string[] {
  return [
    ...hint.organizations.map((id) => `o${id}`),
    ...hint.credentials.map((id) => `c${id}`),
    ...hint.removed_members.map(({ organization_id, user_id }) => `m${organization_id}/${user_id}`),
    ...hint.deleted_organizations.map((id) => `d${id}`),
    ...hint.receipts.map((id) => `r${id}`),
    ...hint.awaited_organizations.map((id) => `w${id}`),
    ...hint.prompted_organizations.map(({ organization_id, revision }) => `a${organization_id}/${revision}`),
    ...hint.prompted_devices.map(({ device_id, revision }) => `p${device_id}/${revision}`),
  ];
}

type Growing<T> = { readonly [K in keyof T]: T[K] extends readonly (infer Item)[] ? Item[] : never };

export const emptyHint = (): Growing<Hint> => ({
  organizations: [],
  logged: [],
  credentials: [],
  removed_members: [],
  deleted_organizations: [],
  receipts: [],
  awaited_organizations: [],
  prompted_organizations: [],
  prompted_devices: [],
});

function parseRevision(text: string): number {
  const revision = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (!Number.isSafeInteger(revision)) throw new RangeError('no revision');
  return revision;
}

/** How each entry is read; a broken one throws. */
const readers: Readonly<Record<string, (into: Growing<Hint>, first: string, second: string) => void>> = {
  o: (into, id) => into.organizations.push(parseOrganizationId(id)),
  c: (into, id) => into.credentials.push(parseTokenId(id)),
  m: (into, org, user) =>
    into.removed_members.push({ organization_id: parseOrganizationId(org), user_id: parseUserId(user) }),
  d: (into, id) => into.deleted_organizations.push(parseOrganizationId(id)),
  r: (into, id) => into.receipts.push(parseOrganizationId(id)),
  w: (into, id) => into.awaited_organizations.push(parseOrganizationId(id)),
  a: (into, org, revision) =>
    into.prompted_organizations.push({ organization_id: parseOrganizationId(org), revision: parseRevision(revision) }),
  p: (into, device, revision) =>
    into.prompted_devices.push({ device_id: parseDeviceId(device), revision: parseRevision(revision) }),
};

/** Entries that a later version may send and this one does not know are passed over. */
export function decodeHint(payload: string): Hint {
  const hint = emptyHint();
  for (const entry of payload.split(' ')) {
    const [first = '', second = ''] = entry.slice(1).split('/');
    try {
      readers[entry.slice(0, 1)]?.(hint, first, second);
    } catch {
      continue;
    }
  }
  return hint;
}
