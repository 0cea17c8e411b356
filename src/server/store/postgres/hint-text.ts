/** Owns the text form of hints between servers and processes: short, and readable by other versions. */
import { parseOrganizationId, parseTokenId, parseUserId } from '../../../policy/ids.ts';
import type { Hint } from '../data/change-log.ts';

/**
 * On the wire: a letter, then ids. `o` news in an organization, `c` a dead credential, `m` a removed member, `d` a deleted organization; any
 * other letter begins a message (`broadcast` of the store). What transactions have logged is no part of it.
 */
export function encodeHint(hint: Hint): readonly string[] {
  return [
    ...hint.organizations.map((id) => `o${id}`),
    ...hint.credentials.map((id) => `c${id}`),
    ...hint.removed_members.map(({ organization_id, user_id }) => `m${organization_id}/${user_id}`),
    ...hint.deleted_organizations.map((id) => `d${id}`),
    ...hint.messages,
  ];
}

type Growing<T> = { readonly [K in keyof T]: T[K] extends readonly (infer Item)[] ? Item[] : never };

export const emptyHint = (): Growing<Hint> => ({
  organizations: [],
  logged: [],
  credentials: [],
  removed_members: [],
  deleted_organizations: [],
  messages: [],
});

/** How each entry is read; a broken one throws. */
const readers: Readonly<Record<string, (into: Growing<Hint>, first: string, second: string) => void>> = {
  o: (into, id) => into.organizations.push(parseOrganizationId(id)),
  c: (into, id) => into.credentials.push(parseTokenId(id)),
  m: (into, org, user) =>
    into.removed_members.push({ organization_id: parseOrganizationId(org), user_id: parseUserId(user) }),
  d: (into, id) => into.deleted_organizations.push(parseOrganizationId(id)),
  // The mark of worker peers, which is no part of a hint.
  s: () => {},
};

/** Broken entries are passed over. */
export function decodeHint(payload: string): Hint {
  const hint = emptyHint();
  for (const entry of payload.split(' ').filter(Boolean)) {
    const [first = '', second = ''] = entry.slice(1).split('/');
    const read = readers[entry.slice(0, 1)];
    try {
      if (read === undefined) hint.messages.push(entry);
      else read(hint, first, second);
    } catch {
      continue;
    }
  }
  return hint;
}
