/**
 * Owns the set-up of the supervised PostgreSQL: the server works as a role that owns its tables and is no superuser, so
 * that nothing in them, also from a backup that somebody altered, reaches beyond the database.
 */
import { Client } from 'pg';

/**
 * Done at every start, because an earlier version may have run here in between, and all that it makes belongs to the
 * superuser. A superuser must run nothing of what it finds: hence the empty path. What an extension brought keeps its owner.
 */
const giveToServer = (role: string): string => `
  SET search_path = pg_catalog, pg_temp;
  DO $$
    DECLARE command text;
    BEGIN
      IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '${role}') THEN CREATE ROLE ${role}; END IF;
      ALTER ROLE ${role} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
      ALTER SCHEMA public OWNER TO ${role};
      FOR command IN
        SELECT format('ALTER %s %s OWNER TO ${role}', kind, name) FROM (
          SELECT 'pg_class'::regclass AS catalog, oid, relowner AS owner, relnamespace AS namespace, oid::regclass::text AS name,
            CASE relkind WHEN 'r' THEN 'TABLE' WHEN 'p' THEN 'TABLE' WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE' END AS kind
          FROM pg_class
          UNION ALL SELECT 'pg_proc'::regclass, oid, proowner, pronamespace, oid::regprocedure::text, 'ROUTINE' FROM pg_proc) AS found
        WHERE kind IS NOT NULL AND namespace = 'public'::regnamespace AND owner IN (SELECT oid FROM pg_roles WHERE rolsuper)
          -- Sequences of a column go with their table.
          AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = catalog AND d.objid = found.oid
            AND (d.deptype = 'e' OR (kind = 'SEQUENCE' AND d.deptype IN ('a', 'i'))))
      LOOP EXECUTE command; END LOOP;
    END
  $$`;

/** Makes the role if need be and gives it all that is there. A standby has what its primary has. */
export async function setUpRole(at: {
  /** The directory of the socket. */
  readonly host: string;
  readonly superuser: string;
  readonly role: string;
}): Promise<void> {
  const { host, superuser, role } = at;
  const client = new Client({ host, user: superuser, database: 'postgres', application_name: 'ringfence-set-up' });
  // Without any listener, an error would end the process.
  client.on('error', () => {});
  await client.connect();
  try {
    const { rows } = await client.query<{ standby: boolean }>('SELECT pg_catalog.pg_is_in_recovery() AS standby');
    if (rows[0]?.standby !== true) await client.query(giveToServer(role));
  } finally {
    await client.end();
  }
}
