/** Owns the SQL conditions and effects that several statements share, each written once. */

/** The role of this user in this organization; NULL: not a member. */
export const roleOf = (user: string, org = '$1'): string =>
  `(SELECT m.role FROM members m WHERE m.org_id = ${org} AND m.user_id = ${user})`;

/** Whether this reader may see a group (reference 5 (2)): the organization's, its own, and everyone's that a device holds. NULL has none of its own. */
export const isVisible = (group: string, reader: string): string =>
  `(${group}.user_id IS NULL OR ${group}.user_id = ${reader}::uuid OR ${group}.is_applied)`;

/** Who alone may see a group: the owner of a user's group that no device holds; NULL: every member. */
export const onlyFor = (group: string): string =>
  `CASE WHEN ${group}.user_id IS NOT NULL AND NOT ${group}.is_applied THEN ${group}.user_id END`;

/** Records that these credentials have ended, for servers that missed the hint. `from` is the text after FROM. */
export const noteRevoked = (id: string, from: string): string =>
  `INSERT INTO revocations (token_id) SELECT ${id} FROM ${from}`;
