/**
 * Owns the SQL that keeps devices by identity (docs/decisions/database.md): what a device is and which groups it has, with the
 * revision of the last such change. It is a separate table, so that a device that only moves between networks writes
 * nothing there.
 */
import { identityBody } from './body.ts';

/** Of a row that is written: its identity where `flags.identity_changed` says so, else NULL. */
export const identityIfChanged = (flags: string, row: string): string =>
  `CASE WHEN ${flags}.identity_changed THEN ${identityBody(row)} END AS identity`;

/** Keeps the identities of the rows of `from` (`org_id`, `id`, `revision`, `identity`) that changed theirs. */
export const keepIdentities = (from: string): string =>
  `INSERT INTO device_identities (device_id, org_id, revision, body)
   SELECT id, org_id, revision, identity FROM ${from} WHERE identity IS NOT NULL
   ON CONFLICT (device_id) DO UPDATE SET revision = excluded.revision, body = excluded.body`;
