/** Owns the later migrations: presence, receipts, and the revisions from which readers can resume. */
import type { Migration } from './first-migrations.ts';

export const enforcementMigrations: readonly Migration[] = [
  {
    version: 13,
    title: 'presence: which devices hold a stream, of which process',
    // One row a process is rewritten every few seconds, small and with room on its page; those of devices only when they come and go.
    sql: `
      CREATE TABLE stream_processes (id uuid PRIMARY KEY, seen_at timestamptz NOT NULL) WITH (fillfactor = 30);
      CREATE INDEX stream_processes_time ON stream_processes (seen_at);

      CREATE TABLE device_presence (
        device_id uuid NOT NULL REFERENCES devices ON DELETE CASCADE,
        process_id uuid NOT NULL,
        org_id uuid NOT NULL,
        connected boolean NOT NULL,
        last_seen_at timestamptz NOT NULL,
        PRIMARY KEY (device_id, process_id)
      ) WITH (fillfactor = 70);
      CREATE INDEX device_presence_list ON device_presence (org_id);
      CREATE INDEX device_presence_process ON device_presence (process_id);
    `,
  },
  {
    version: 14,
    title: 'statuses of devices by transaction',
    // By which a server reads those that it has not seen yet, and no others.
    sql: `
      ALTER TABLE device_status ADD COLUMN transaction_id xid8 NOT NULL DEFAULT '0';
      CREATE INDEX device_status_transaction ON device_status (org_id, transaction_id);
    `,
  },
  {
    version: 15,
    title: 'samples of fleets',
    // A few rows are rewritten some times in their five minutes, with room on their page, and never after that.
    sql: `
      CREATE TABLE fleet_samples (
        org_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
        at timestamptz NOT NULL,
        is_claimed boolean NOT NULL DEFAULT false,
        devices integer,
        in_force integer,
        admitted bigint NOT NULL DEFAULT 0,
        refused bigint NOT NULL DEFAULT 0,
        PRIMARY KEY (org_id, at)
      ) WITH (fillfactor = 80);
      CREATE INDEX fleet_samples_time ON fleet_samples USING brin (at) WITH (pages_per_range = 16, autosummarize = on);
    `,
  },
  {
    version: 16,
    title: 'presence by device',
    // Read in parts, in the order of the devices: an organization may have a hundred thousand.
    sql: `
      CREATE INDEX device_presence_device ON device_presence (org_id, device_id);
      DROP INDEX device_presence_list;
    `,
  },
  {
    version: 17,
    title: 'deliveries by organization',
    // So that each organization gets its turn, also when another has many deliveries waiting.
    sql: `
      CREATE INDEX webhook_deliveries_organization ON webhook_deliveries (org_id, next_at) WHERE state = 'pending';
      DROP INDEX webhook_deliveries_due;
    `,
  },
  {
    version: 18,
    title: 'statuses belong to the device of their organization',
    // Both are what a status is found by: a device that is deleted takes its status along without a look at all others.
    sql: `
      CREATE UNIQUE INDEX devices_organization ON devices (org_id, id);
      DROP INDEX devices_list;
      ALTER TABLE device_status
        DROP CONSTRAINT device_status_device_id_fkey,
        ADD CONSTRAINT device_status_device FOREIGN KEY (org_id, device_id) REFERENCES devices (org_id, id) ON DELETE CASCADE;
    `,
  },
  {
    version: 19,
    title: 'presence by signs of life',
    // What a server of the version before writes counts as it did: a device is online while it holds a stream.
    sql: `
      ALTER TABLE stream_processes ADD COLUMN heard_at timestamptz;
      ALTER TABLE device_presence
        ADD COLUMN two_way boolean NOT NULL DEFAULT true,
        ADD COLUMN silence interval NOT NULL DEFAULT '45 seconds',
        ADD COLUMN left_at timestamptz;
    `,
  },
  {
    version: 20,
    title: 'states of devices by host name',
    // Before a policy file changes a device by its host name, the server looks for other devices that had the name
    // earlier. The index holds a digest, because names may be longer than an index entry.
    sql: `
      CREATE INDEX history_names ON history (org_id, md5((body || '}')::json ->> 'hostname')) WHERE kind = 'device';
    `,
  },
  {
    version: 21,
    title: 'usernames that look alike',
    // The oldest user of a name gets its key. Other existing users with a similar name keep their names without a key,
    // and no new user can take one. Letters of other scripts that look like Latin ones are not recognized here: names
    // of existing users with such letters count as they are.
    sql: `
      ALTER TABLE users ADD COLUMN username_key text;
      WITH keys AS (
        SELECT id, created_at, lower(btrim(regexp_replace(
          CASE WHEN getdatabaseencoding() = 'UTF8' THEN normalize(username, NFKC) ELSE username END, ' {2,}', ' ', 'g'))) AS key
        FROM users
      ), first AS (SELECT DISTINCT ON (key) key, id FROM keys ORDER BY key, created_at, id)
      UPDATE users SET username_key = first.key FROM first WHERE users.id = first.id;
      CREATE UNIQUE INDEX users_look_alike ON users (username_key);
    `,
  },
  {
    version: 22,
    title: 'the audit tells before and after',
    // Of what the history does not keep: JSON objects of the fields that a write wrote.
    sql: `ALTER TABLE audit ADD COLUMN subject_name text, ADD COLUMN before text, ADD COLUMN after text;`,
  },
  {
    version: 23,
    title: 'from which revisions readers cannot resume',
    // A record that was made before this step counts as one that has always been there.
    sql: `
      ALTER TABLE devices ADD COLUMN born bigint NOT NULL DEFAULT 0;
      ALTER TABLE security_groups ADD COLUMN born bigint NOT NULL DEFAULT 0;
      -- Of a deletion: the revision at which the record was created, and since when no reader needs the deletion any more.
      ALTER TABLE changes ADD COLUMN born bigint NOT NULL DEFAULT 0, ADD COLUMN unneeded_since timestamptz;

      -- Ranges of revisions that cannot be resumed from, both ends included. Without a kind: discarded by a restored backup.
      CREATE TABLE revision_gaps (
        org_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
        kind text,
        first bigint NOT NULL,
        last bigint NOT NULL
      );
      CREATE INDEX revision_gaps_organization ON revision_gaps (org_id);
      -- Moves whenever the gaps of an organization change, so that servers know when to read them again.
      ALTER TABLE heads ADD COLUMN gaps bigint NOT NULL DEFAULT 0;
    `,
  },
  {
    version: 24,
    title: 'secrets of TLS session tickets',
    sql: `CREATE TABLE tls_ticket_secrets (period bigint PRIMARY KEY, secret bytea NOT NULL);`,
  },
  {
    version: 25,
    title: 'eras: which part of the history which run of which database has written',
    sql: `
      -- The newest row is the run of the database that writes now. A write is refused where it does not fit: then the database was started
      -- again, or is another one, and what it holds is compared first with what servers have seen.
      CREATE TABLE eras (
        serial bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id uuid NOT NULL DEFAULT gen_random_uuid(),
        started_at timestamptz NOT NULL,
        heads_table oid NOT NULL,
        -- System identifier, timeline, database and table.
        place text NOT NULL,
        -- Whether every organization leapt when it began.
        leapt boolean NOT NULL,
        begun_at timestamptz NOT NULL DEFAULT clock_timestamp()
      );
      CREATE TABLE era_starts (
        org_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
        first bigint NOT NULL,
        era uuid NOT NULL,
        PRIMARY KEY (org_id, first)
      );
      CREATE FUNCTION refuse_unverified() RETURNS boolean LANGUAGE plpgsql AS $$
        BEGIN
          RAISE EXCEPTION 'the history of this database is not verified yet' USING ERRCODE = 'RF001';
        END
      $$;
    `,
  },
  {
    version: 26,
    title: 'groups by name',
    sql: `CREATE INDEX security_groups_name ON security_groups (org_id, group_name);`,
  },
  {
    version: 27,
    title: 'the log says which era wrote an entry',
    // An entry of an earlier version has none. The ranges of `era_starts` cover it.
    sql: 'ALTER TABLE changes ADD COLUMN era uuid;',
  },
  {
    version: 28,
    title: 'change sets, and what each of them changed',
    sql: `
      ALTER TABLE audit ADD COLUMN change_id uuid;
      CREATE TABLE change_sets (
        id uuid PRIMARY KEY,
        org_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
        user_id uuid NOT NULL,
        at timestamptz NOT NULL,
        -- The revisions that it took, both ends included.
        first bigint NOT NULL,
        last bigint NOT NULL,
        reverts uuid,
        reverted_by uuid,
        -- Each record before and after, as JSON: what a revert needs.
        changes text NOT NULL
      );
      CREATE INDEX change_sets_time ON change_sets (at);
      CREATE INDEX change_sets_organization ON change_sets (org_id);
    `,
  },
  {
    version: 29,
    title: 'isolated devices',
    // As JSON text, which is a part of the device's body; empty while the device is not isolated.
    sql: `ALTER TABLE devices ADD COLUMN isolated text NOT NULL DEFAULT '';`,
  },
  {
    version: 30,
    title: 'isolated devices are found',
    sql: `CREATE INDEX devices_isolated ON devices (org_id) WHERE isolated <> '';`,
  },
  {
    version: 31,
    title: 'policy tests',
    sql: `
      CREATE TABLE policy_tests (
        org_id uuid PRIMARY KEY REFERENCES organizations ON DELETE CASCADE,
        -- How often the list was replaced.
        revision bigint NOT NULL,
        tests text NOT NULL,
        updated_at timestamptz NOT NULL
      );
      -- Beside the revision, where every write looks anyway.
      ALTER TABLE heads ADD COLUMN has_tests boolean NOT NULL DEFAULT false;
    `,
  },
  {
    version: 32,
    title: 'trials: changes that end by themselves unless somebody confirms them',
    sql: `
      -- As the record shows it, with the fields as they were before. NULL: no change of the record is being tried.
      ALTER TABLE security_groups ADD COLUMN trial text;
      ALTER TABLE devices ADD COLUMN trial text;

      CREATE TABLE trials (
        id uuid PRIMARY KEY,
        org_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
        state text NOT NULL CHECK (state IN ('pending', 'confirmed', 'reverted', 'expired')),
        started_at timestamptz NOT NULL,
        ends_at timestamptz NOT NULL,
        user_id uuid NOT NULL,
        -- A JSON array of selectors; NULL: all devices.
        scope text,
        groups uuid[] NOT NULL,
        devices uuid[] NOT NULL,
        revision bigint NOT NULL,
        ended_at timestamptz,
        ended_by uuid
      );
      CREATE INDEX trials_due ON trials (ends_at) WHERE state = 'pending';
      CREATE INDEX trials_list ON trials (org_id, id);
    `,
  },
  {
    version: 33,
    title: 'what agents record, how refusals answer, and the traffic that they observed',
    sql: `
      ALTER TABLE organizations
        ADD COLUMN observe text NOT NULL DEFAULT 'counters' CHECK (observe IN ('off', 'counters', 'refused', 'all')),
        ADD COLUMN refuse_with text NOT NULL DEFAULT 'drop' CHECK (refuse_with IN ('drop', 'reject'));

      -- Some hundred sums in a row, because a row for each would cost most of the time. No reference to the device: its traffic may outlive it.
      CREATE TABLE flows (
        id bigint GENERATED ALWAYS AS IDENTITY,
        org_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
        device_id uuid NOT NULL,
        since timestamptz NOT NULL,
        until timestamptz NOT NULL,
        part integer NOT NULL,
        observed_all boolean NOT NULL,
        -- Added up from the reports of an hour.
        is_hourly boolean NOT NULL,
        sums integer NOT NULL,
        -- A Bloom filter over the sums.
        filter bit(2048) NOT NULL,
        block bytea NOT NULL,
        UNIQUE (device_id, until, part)
      );
      CREATE INDEX flows_list ON flows (org_id, until, id) INCLUDE (sums);
      CREATE INDEX flows_time ON flows USING brin (until);
      CREATE INDEX flows_to_add_up ON flows (until) WHERE NOT is_hourly;

      CREATE TABLE flow_coverage (
        org_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
        device_id uuid NOT NULL,
        day date NOT NULL,
        last_since timestamptz NOT NULL,
        through timestamptz NOT NULL,
        refused_seconds integer NOT NULL,
        all_seconds integer NOT NULL,
        not_recorded bigint NOT NULL,
        PRIMARY KEY (device_id, day)
      ) WITH (fillfactor = 80);
      CREATE INDEX flow_coverage_organization ON flow_coverage (org_id, day);
    `,
  },
  {
    version: 34,
    title: 'idempotency keys of creates, with their answers',
    // The key is a digest. An answer with a secret is encrypted with the caller's credential, which is not stored.
    sql: `
      CREATE TABLE idempotency_keys (
        org_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
        -- A user or an enrollment key.
        caller uuid NOT NULL,
        key bytea NOT NULL,
        at timestamptz NOT NULL,
        fingerprint bytea NOT NULL,
        answer bytea NOT NULL,
        is_final boolean NOT NULL,
        PRIMARY KEY (org_id, caller, key)
      );
      CREATE INDEX idempotency_keys_age ON idempotency_keys (at);
      CREATE INDEX idempotency_keys_organization ON idempotency_keys (org_id, at);
    `,
  },
  {
    version: 35,
    title: 'invitations: people who become members when they sign in',
    sql: `
      CREATE TABLE invitations (
        id uuid PRIMARY KEY,
        org_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
        issuer text NOT NULL,
        claim text NOT NULL CHECK (claim IN ('email', 'username')),
        value text NOT NULL,
        role text NOT NULL CHECK (role IN ('owner', 'member')),
        invited_by uuid NOT NULL REFERENCES users,
        created_at timestamptz NOT NULL,
        expires_at timestamptz NOT NULL,
        UNIQUE (issuer, claim, value, org_id)
      );
      CREATE INDEX invitations_list ON invitations (org_id, id);
      CREATE INDEX invitations_inviter ON invitations (invited_by);
    `,
  },
  {
    version: 36,
    title: 'keys that sign evidence',
    // The private part is stored in plain text, as the secrets of webhooks are: the server signs with it. Of a retired key only the public part stays.
    sql: `
      CREATE TABLE evidence_keys (
        serial bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        org_id uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
        public_key bytea NOT NULL,
        private_key bytea,
        created_at timestamptz NOT NULL,
        retired_at timestamptz,
        CHECK ((private_key IS NULL) = (retired_at IS NOT NULL))
      );
      CREATE UNIQUE INDEX evidence_keys_present ON evidence_keys (org_id) WHERE retired_at IS NULL;
      CREATE INDEX evidence_keys_list ON evidence_keys (org_id, serial);
    `,
  },
  {
    version: 37,
    title: 'the history of an organization by time',
    sql: 'CREATE INDEX history_organization_time ON history (org_id, at);',
  },
  {
    version: 38,
    title: 'groups that are watch only',
    sql: `
      ALTER TABLE security_groups ADD COLUMN mode text NOT NULL DEFAULT 'enforce' CHECK (mode IN ('enforce', 'observe')),
        ADD CHECK (mode = 'enforce' OR NOT is_default);
    `,
  },
];
