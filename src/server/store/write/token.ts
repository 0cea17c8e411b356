/** Owns the row of a new token. */
import { statement } from '../postgres/sql.ts';

/** Values: id, digest, user, organization and device (null: the user's own), name, scope, expiry, now. */
export const insertToken = statement<never>(
  'insert_token',
  `INSERT INTO tokens (id, digest, user_id, org_id, device_id, name, scope, expires_at, created_at)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
);
