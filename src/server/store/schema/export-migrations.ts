/** Owns the steps of the schema for what leaves the server: the audit log, evidence, and levels of refusals for alerts. */
import type { Migration } from './first-migrations.ts';

/** How many rules or selectors a group has, and had before the change that is being tried. */
const lengthsOf = (...columns: readonly string[]): string =>
  columns
    .flatMap((column) => [
      `json_array_length(${column}::json)`,
      `coalesce(json_array_length(trial::json -> 'before' -> '${column}'), 0)`,
    ])
    .join(' + ');

/** By organization and owner, what rows of groups add to the sums, or take from them. */
const movedSums = (...sources: readonly (readonly ['' | '-', string])[]): string =>
  `SELECT g.org_id, o.owner_id, sum(g.rules)::bigint AS rules, sum(g.bytes)::bigint AS bytes, sum(g.selectors)::bigint AS selectors
   FROM (${sources
     .map(
       ([sign, from]) =>
         `SELECT org_id, user_id, ${sign}rules AS rules, ${sign}octet_length(body) AS bytes, ${sign}selectors AS selectors FROM ${from}`,
     )
     .join(' UNION ALL ')}) g CROSS JOIN LATERAL (VALUES (g.org_id), (g.user_id)) AS o (owner_id)
   WHERE o.owner_id IS NOT NULL GROUP BY g.org_id, o.owner_id`;

/** Adds them, and says which limit is passed: only what grows passes one. */
const addSums = (...sources: readonly (readonly ['' | '-', string])[]): string => `
          WITH moved AS (${movedSums(...sources)}),
          summed AS (
            INSERT INTO group_sums AS s SELECT * FROM moved m WHERE (m.rules, m.bytes, m.selectors) <> (0, 0, 0)
            ON CONFLICT (org_id, owner_id) DO UPDATE SET
              rules = s.rules + EXCLUDED.rules, bytes = s.bytes + EXCLUDED.bytes, selectors = s.selectors + EXCLUDED.selectors
            RETURNING *)
          SELECT c.name || ' ' || c.most INTO beyond
          FROM group_limits l, summed s JOIN moved m USING (org_id, owner_id), LATERAL (VALUES
            ('member_rules', s.owner_id <> s.org_id, m.rules, s.rules, l.member_rules),
            ('member_bytes', s.owner_id <> s.org_id, m.bytes, s.bytes, l.member_bytes),
            ('rules', s.owner_id = s.org_id, m.rules, s.rules, l.rules),
            ('bytes', s.owner_id = s.org_id, m.bytes, s.bytes, l.bytes),
            ('selectors', s.owner_id = s.org_id, m.selectors, s.selectors, l.selectors)) AS c (name, is_concerned, grown, sum, most)
          WHERE c.is_concerned AND c.grown > 0 AND c.sum > c.most ORDER BY s.owner_id = s.org_id, c.name LIMIT 1;`;

/** Servers of this version of the schema and of later ones run side by side, while they are replaced one after the other. Those of an earlier one stop first. */
export const rollingSince = 57;

export const exportMigrations: readonly Migration[] = [
  {
    version: 39,
    title: 'what waits for the audit log, and how much each device usually refuses',
    // The triggers are off until a server with an audit log starts.
    sql: `
      CREATE TABLE audit_outbox (
        n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        -- An entry of the audit, or a report of traffic by its key.
        audit_id uuid,
        device_id uuid,
        until timestamptz,
        part integer
      );
      CREATE TABLE audit_log_lease (
        id boolean PRIMARY KEY DEFAULT true CHECK (id),
        holder uuid,
        until timestamptz NOT NULL,
        -- Entries that were dropped since the last one that was written.
        lost bigint NOT NULL
      );
      INSERT INTO audit_log_lease (until, lost) VALUES ('-infinity', 0);

      CREATE FUNCTION keep_for_audit_log() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO audit_outbox (audit_id) VALUES (NEW.id); RETURN NULL; END $$;
      CREATE TRIGGER audit_log AFTER INSERT ON audit FOR EACH ROW EXECUTE FUNCTION keep_for_audit_log();
      ALTER TABLE audit DISABLE TRIGGER audit_log;
      CREATE FUNCTION keep_flow_for_audit_log() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO audit_outbox (device_id, until, part) VALUES (NEW.device_id, NEW.until, NEW.part); RETURN NULL; END $$;
      CREATE TRIGGER audit_log AFTER INSERT ON flows FOR EACH ROW WHEN (NOT NEW.is_hourly) EXECUTE FUNCTION keep_flow_for_audit_log();
      ALTER TABLE flows DISABLE TRIGGER audit_log;

      CREATE TABLE refusal_levels (
        device_id uuid PRIMARY KEY,
        org_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
        -- The end of the newest report.
        through timestamptz NOT NULL,
        reports integer NOT NULL,
        -- Refused packets a minute: the mean of earlier reports, and of the newest one.
        usual double precision NOT NULL,
        newest double precision NOT NULL,
        surge_since timestamptz,
        -- A surge is over when no report prolongs it beyond this.
        surge_until timestamptz
      ) WITH (fillfactor = 80);
      CREATE INDEX refusal_levels_surge ON refusal_levels (org_id, surge_until) WHERE surge_until IS NOT NULL;
    `,
  },
  {
    version: 40,
    title: 'the history of an organization by revision, for evidence; names of devices by their digest first',
    // Other queries of an organization must not take these indexes for theirs, which PostgreSQL does above all before it has statistics.
    sql: `
      CREATE INDEX history_revision ON history (org_id, (revision + 0));
      CREATE INDEX history_device_names ON history (md5((body || '}')::json ->> 'hostname'), org_id) WHERE kind = 'device';
    `,
  },
  {
    version: 41,
    title:
      'the last report of each device by its own clock, and the sums of each device of an organization by an index',
    // The index first: the other change locks out readers, and servers of an earlier version read on while the index is built.
    sql: `
      CREATE INDEX flows_organization ON flows (org_id, until, id) INCLUDE (sums, device_id);
      ALTER TABLE refusal_levels ADD COLUMN reported timestamptz;
    `,
  },
  {
    version: 42,
    title: 'names of devices have one index',
    // In a transaction of its own: it locks out readers, and servers of an earlier version read on while the other one is built.
    sql: 'DROP INDEX history_names',
  },
  {
    version: 43,
    title: 'sums of observed traffic have one index for an organization',
    sql: 'DROP INDEX flows_list',
  },
  {
    version: 44,
    title: 'idempotency keys of creates outside of organizations',
    // There, the place of a key is its user.
    sql: 'ALTER TABLE idempotency_keys DROP CONSTRAINT idempotency_keys_org_id_fkey',
  },
  {
    version: 45,
    title: 'the usage of rules by day',
    // The index first: the other change locks out readers, and servers of an earlier version read on while the index is built.
    sql: `
      CREATE INDEX flows_written ON flows (org_id, id);

      CREATE TABLE rule_usage (
        org_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
        group_id uuid NOT NULL,
        day date NOT NULL,
        -- A hash of the direction and of what the rule is.
        rule bytea NOT NULL,
        packets bigint NOT NULL,
        last_hit timestamptz NOT NULL,
        PRIMARY KEY (org_id, group_id, day, rule)
      ) WITH (fillfactor = 80);

      -- How far the traffic of an organization is counted, and by which of its states.
      CREATE TABLE usage_positions (
        org_id uuid PRIMARY KEY REFERENCES organizations ON DELETE CASCADE,
        counted bigint NOT NULL,
        -- Traffic that was added up by the hour before the counting began is counted, too.
        hourly_through bigint NOT NULL,
        revision bigint NOT NULL,
        -- Nothing that was written later is counted by an earlier state.
        synced timestamptz NOT NULL
      ) WITH (fillfactor = 80);

      -- Since when the traffic of a device is judged with a group.
      CREATE TABLE usage_pairs (
        org_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
        group_id uuid NOT NULL,
        device_id uuid NOT NULL,
        since timestamptz NOT NULL,
        PRIMARY KEY (org_id, group_id, device_id)
      );

      -- Of the time of a day, that of which the sums are no longer kept.
      ALTER TABLE flow_coverage ADD COLUMN cut_refused_seconds integer NOT NULL DEFAULT 0, ADD COLUMN cut_all_seconds integer NOT NULL DEFAULT 0;
    `,
  },
  {
    version: 46,
    title: 'one process counts the rules of an organization',
    sql: `
      -- When a process took an organization to count what waits.
      CREATE TABLE usage_claims (
        org_id uuid PRIMARY KEY REFERENCES organizations ON DELETE CASCADE,
        at timestamptz NOT NULL
      ) WITH (fillfactor = 80);
    `,
  },
  {
    version: 47,
    title: 'deleted groups of all organizations by id',
    // A new group does not get the id of one that may come back. Only deletions: no query about one organization takes this index for its own.
    sql: `CREATE INDEX history_deleted_groups ON history (id) WHERE kind = 'security-groups' AND type = 'delete';`,
  },
  {
    version: 48,
    title: 'what devices reported before a cut of the history stays, and proves nothing',
    sql: `
      -- Whether a part of the history before it is or may be lost. Otherwise a standby that has everything took over.
      ALTER TABLE eras ADD COLUMN is_cut boolean NOT NULL DEFAULT false;
      -- The serial of the era in which it was reported. NULL: before this step, or to a server of an earlier version.
      ALTER TABLE device_status ADD COLUMN era bigint;
    `,
  },
  {
    version: 49,
    title: 'sessions know their provider, and a sign-in is finished once',
    // Which provider the sessions so far are of, nobody knows: they end. NULL: begun by a server of an earlier version.
    sql: `
      WITH gone AS (DELETE FROM sessions RETURNING id) INSERT INTO revocations (token_id) SELECT id FROM gone;
      ALTER TABLE sessions ADD COLUMN issuer text, ADD COLUMN client_id text;
      CREATE TABLE used_tickets (
        digest bytea PRIMARY KEY,
        until timestamptz NOT NULL
      );
      CREATE INDEX used_tickets_end ON used_tickets (until);
    `,
  },
  {
    version: 50,
    title: 'what the groups of an organization and of each member hold together, and its limits',
    // A trigger, because every way to write a group counts: no operation can forget it. What a trial replaced counts too, so that its end never grows.
    sql: `
      ALTER TABLE security_groups
        ADD COLUMN rules integer NOT NULL GENERATED ALWAYS AS (${lengthsOf('inbound_rules', 'outbound_rules')}) STORED,
        ADD COLUMN selectors integer NOT NULL GENERATED ALWAYS AS (${lengthsOf('applies_to')}) STORED;

      -- \`owner_id\`: a member, or the organization itself for all of its groups.
      CREATE TABLE group_sums (
        org_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
        owner_id uuid NOT NULL,
        rules bigint NOT NULL,
        bytes bigint NOT NULL,
        selectors bigint NOT NULL,
        PRIMARY KEY (org_id, owner_id)
      ) WITH (fillfactor = 50);
      INSERT INTO group_sums ${movedSums(['', 'security_groups'])};

      -- One row, written by the server that started last.
      CREATE TABLE group_limits (
        is_row boolean PRIMARY KEY CHECK (is_row),
        member_rules bigint NOT NULL,
        member_bytes bigint NOT NULL,
        rules bigint NOT NULL,
        bytes bigint NOT NULL,
        selectors bigint NOT NULL
      );

      CREATE FUNCTION sum_groups() RETURNS trigger LANGUAGE plpgsql AS $$
      DECLARE
        beyond text;
      BEGIN
        IF TG_OP = 'DELETE' THEN
          -- No insert: the organization may be gone with its groups.
          UPDATE group_sums s SET rules = s.rules + m.rules, bytes = s.bytes + m.bytes, selectors = s.selectors + m.selectors
          FROM (${movedSums(['-', 'old_groups'])}) m WHERE s.org_id = m.org_id AND s.owner_id = m.owner_id;
          RETURN NULL;
        ELSIF TG_OP = 'INSERT' THEN
          ${addSums(['', 'new_groups'])}
        ELSE
          ${addSums(['', 'new_groups'], ['-', 'old_groups'])}
        END IF;
        IF beyond IS NOT NULL THEN
          RAISE EXCEPTION 'too much in the groups of an organization' USING ERRCODE = 'RF002', DETAIL = beyond;
        END IF;
        RETURN NULL;
      END $$;
      CREATE TRIGGER sums_of_new AFTER INSERT ON security_groups
        REFERENCING NEW TABLE AS new_groups FOR EACH STATEMENT EXECUTE FUNCTION sum_groups();
      CREATE TRIGGER sums_of_changed AFTER UPDATE ON security_groups
        REFERENCING OLD TABLE AS old_groups NEW TABLE AS new_groups FOR EACH STATEMENT EXECUTE FUNCTION sum_groups();
      CREATE TRIGGER sums_of_deleted AFTER DELETE ON security_groups
        REFERENCING OLD TABLE AS old_groups FOR EACH STATEMENT EXECUTE FUNCTION sum_groups();

      -- Every write of a group asks whether anything is forbidden.
      CREATE INDEX security_groups_forbids ON security_groups (org_id) WHERE guardrail = 'forbid';
      CREATE INDEX devices_user ON devices (user_id, org_id);
      CREATE INDEX organizations_owner ON organizations (owner_id);
    `,
  },
  {
    version: 51,
    title: 'owners who were made owners by somebody else and have not accepted',
    sql: `
      ALTER TABLE members ADD COLUMN is_pending boolean NOT NULL DEFAULT false, ADD CHECK (NOT is_pending OR role = 'owner');
    `,
  },
  {
    version: 52,
    title: 'what identifies a row of each table, for logical replication; references are found by indexes',
    // The two large tables have a unique index, which tells the rows apart: another one would make each of their writes dearer.
    sql: `
      ALTER TABLE history REPLICA IDENTITY USING INDEX history_states;
      ALTER TABLE flows REPLICA IDENTITY USING INDEX flows_device_id_until_part_key;
      ALTER TABLE revocations ADD PRIMARY KEY (serial);
      ALTER TABLE revision_gaps ADD COLUMN n bigint GENERATED ALWAYS AS IDENTITY, ADD PRIMARY KEY (n);
      ALTER TABLE group_selectors ADD COLUMN n bigint GENERATED ALWAYS AS IDENTITY, ADD PRIMARY KEY (group_id, n);
      DROP INDEX group_selectors_group;
      CREATE INDEX security_groups_member ON security_groups (user_id, org_id, id) WHERE user_id IS NOT NULL;
      DROP INDEX security_groups_user;
      CREATE INDEX refusal_levels_organization ON refusal_levels (org_id);
    `,
  },
  {
    version: 53,
    title: 'webhooks are paused when the owner who set them up is no owner any more',
    // `set_by` is unknown where the audit is not kept so long.
    sql: `
      ALTER TABLE webhooks ADD COLUMN set_by uuid, ADD COLUMN paused_at timestamptz;
      UPDATE webhooks w SET set_by = (SELECT a.user_id FROM audit a WHERE a.org_id = w.org_id AND a.subject_id = w.id
        AND (a.operation = 'createWebhook' OR (a.operation = 'updateWebhook' AND 'url' = ANY (a.fields))) ORDER BY a.id DESC LIMIT 1);
      UPDATE webhooks w SET paused_at = now() WHERE w.set_by IS NOT NULL
        AND NOT EXISTS (SELECT FROM members m WHERE m.org_id = w.org_id AND m.user_id = w.set_by AND m.role = 'owner');
    `,
  },
  {
    version: 54,
    title: 'agents say which rules decided: nothing is judged again',
    sql: `
      -- The groups that the last report of a device was about, each with the time since when without a break.
      ALTER TABLE refusal_levels ADD COLUMN rules_since jsonb NOT NULL DEFAULT '{}';
      -- Packets that were recorded and whose rules the device did not know.
      ALTER TABLE flow_coverage ADD COLUMN rules_unknown bigint NOT NULL DEFAULT 0;
      DROP TABLE usage_positions, usage_pairs, usage_claims;
      DROP INDEX flows_written;
    `,
  },
  {
    version: 55,
    title: 'leases of work that one process of all servers does',
    sql: `
      CREATE TABLE leases (kind text PRIMARY KEY, holder uuid, until timestamptz NOT NULL);
      INSERT INTO leases (kind, until) VALUES ('audit_log', '-infinity'), ('retention', '-infinity');
      CREATE TABLE audit_log_losses (
        id boolean PRIMARY KEY DEFAULT true CHECK (id),
        -- Entries that were dropped since the last one that was written.
        lost bigint NOT NULL
      );
      INSERT INTO audit_log_losses (lost) SELECT lost FROM audit_log_lease;
      DROP TABLE audit_log_lease;
    `,
  },
  {
    version: 56,
    title: 'tokens of devices renew themselves',
    sql: `
      -- next_digest: of the secret that the agent has made and not used yet. renewed_at: since when the present secret counts, if not since the beginning.
      ALTER TABLE tokens ADD COLUMN next_digest bytea CHECK (next_digest IS NULL OR device_id IS NOT NULL), ADD COLUMN renewed_at timestamptz,
        ADD COLUMN renewal_asked boolean NOT NULL DEFAULT false;
      CREATE UNIQUE INDEX tokens_next_digest ON tokens (next_digest) WHERE next_digest IS NOT NULL;
    `,
  },
  {
    version: 57,
    title: 'a record is stored once, as it goes over the wire; columns are what rows are found by',
    // Servers of an earlier version write these columns: they stop before this step.
    sql: `
      -- The groups that the device lists, and listed before the change that is being tried.
      ALTER TABLE devices ADD COLUMN listed uuid[] NOT NULL DEFAULT '{}';
      UPDATE devices SET listed = ARRAY(SELECT DISTINCT id FROM (
          SELECT unnest(security_groups) AS id UNION ALL SELECT json_array_elements_text(trial::json -> 'before' -> 'security_groups')::uuid) AS l)
        WHERE security_groups <> '{}' OR trial IS NOT NULL;
      CREATE INDEX devices_listed ON devices USING gin (listed) WHERE listed <> '{}';
      ALTER TABLE devices DROP COLUMN public_key, DROP COLUMN local_ip, DROP COLUMN tunnel_ip, DROP COLUMN child_prefix, DROP COLUMN relay,
        DROP COLUMN discovery, DROP COLUMN reflexive_ip4, DROP COLUMN endpoint_local_address_ip4, DROP COLUMN symmetric_nat, DROP COLUMN hostname,
        DROP COLUMN addresses, DROP COLUMN labels, DROP COLUMN security_groups, DROP COLUMN trial, DROP COLUMN created_at, DROP COLUMN updated_at;
      ALTER TABLE security_groups ALTER COLUMN rules DROP EXPRESSION, ALTER COLUMN selectors DROP EXPRESSION;
      ALTER TABLE security_groups DROP COLUMN group_description, DROP COLUMN inbound_rules, DROP COLUMN outbound_rules, DROP COLUMN applies_to,
        DROP COLUMN trial, DROP COLUMN created_at, DROP COLUMN updated_at,
        ADD CHECK (selectors = 0 OR (user_id IS NULL AND NOT is_default)), ADD CHECK (guardrail IS NULL OR selectors > 0);
      DROP TABLE group_selectors, device_groups;
    `,
  },
];
