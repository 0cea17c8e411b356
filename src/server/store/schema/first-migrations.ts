/** Owns the first migrations of the schema. */

export interface Migration {
  readonly version: number;
  readonly title: string;
  readonly sql: string;
}

export const firstMigrations: readonly Migration[] = [
  {
    version: 1,
    title: 'organizations, users, devices, security groups, credentials and the change log',
    // Statements are planned once, often on empty tables where all indexes look alike. So every lookup of one row is by a
    // column that only one index begins with; nothing but listings goes by organization.
    sql: `
      CREATE TABLE users (
        id uuid PRIMARY KEY,
        username text NOT NULL UNIQUE,
        is_admin boolean NOT NULL,
        issuer text,
        subject text,
        created_at timestamptz NOT NULL,
        UNIQUE (issuer, subject)
      );

      CREATE TABLE organizations (
        id uuid PRIMARY KEY,
        name text NOT NULL,
        description text NOT NULL,
        owner_id uuid NOT NULL REFERENCES users,
        created_at timestamptz NOT NULL,
        updated_at timestamptz NOT NULL
      );

      -- The counter, and the lock under which everything of an organization changes. Apart from the organization's own row, because
      -- it is rewritten by every write: small, and with room on its page, it is updated in place.
      CREATE TABLE heads (
        org_id uuid PRIMARY KEY REFERENCES organizations,
        revision bigint NOT NULL,
        version bigint NOT NULL,
        purged bigint NOT NULL
      ) WITH (fillfactor = 30);

      CREATE TABLE members (
        org_id uuid NOT NULL REFERENCES organizations,
        user_id uuid NOT NULL REFERENCES users,
        created_at timestamptz NOT NULL,
        PRIMARY KEY (org_id, user_id)
      );
      CREATE INDEX members_user ON members (user_id, org_id);

      CREATE TABLE security_groups (
        id uuid PRIMARY KEY,
        org_id uuid NOT NULL REFERENCES organizations,
        user_id uuid,
        is_default boolean NOT NULL,
        -- Of a user's group: whether any device holds it, which is when every member may see it.
        is_applied boolean NOT NULL,
        -- The revision at which it last left everyone's view; 0 when it never did.
        left_at bigint NOT NULL,
        group_name text NOT NULL,
        group_description text NOT NULL,
        inbound_rules text NOT NULL,
        outbound_rules text NOT NULL,
        revision bigint NOT NULL,
        created_at timestamptz NOT NULL,
        updated_at timestamptz NOT NULL,
        body text NOT NULL,
        FOREIGN KEY (org_id, user_id) REFERENCES members,
        CHECK (NOT (is_default AND user_id IS NOT NULL))
      );
      CREATE INDEX security_groups_list ON security_groups (org_id, id);
      CREATE UNIQUE INDEX security_groups_revision ON security_groups (org_id, revision);
      CREATE UNIQUE INDEX security_groups_default ON security_groups (org_id) WHERE is_default;
      CREATE INDEX security_groups_user ON security_groups (user_id, id) WHERE user_id IS NOT NULL;

      CREATE TABLE devices (
        id uuid PRIMARY KEY,
        org_id uuid NOT NULL,
        user_id uuid NOT NULL,
        public_key text NOT NULL,
        -- SHA-256 of organization and public key: unique, of one length, and found by no other index than its own.
        key_digest bytea NOT NULL UNIQUE,
        local_ip text NOT NULL,
        tunnel_ip text NOT NULL,
        child_prefix text,
        relay boolean NOT NULL,
        discovery boolean NOT NULL,
        reflexive_ip4 text NOT NULL,
        endpoint_local_address_ip4 text NOT NULL,
        symmetric_nat boolean NOT NULL,
        hostname text NOT NULL,
        security_groups uuid[] NOT NULL,
        revision bigint NOT NULL,
        created_at timestamptz NOT NULL,
        updated_at timestamptz NOT NULL,
        body text NOT NULL,
        FOREIGN KEY (org_id, user_id) REFERENCES members
      );
      CREATE INDEX devices_list ON devices (org_id, id);
      CREATE UNIQUE INDEX devices_revision ON devices (org_id, revision);

      -- Which devices hold a group; the order of a device's list is in its own row.
      CREATE TABLE device_groups (
        group_id uuid NOT NULL REFERENCES security_groups,
        device_id uuid NOT NULL REFERENCES devices ON DELETE CASCADE,
        PRIMARY KEY (group_id, device_id)
      );
      CREATE INDEX device_groups_device ON device_groups (device_id);

      CREATE TABLE device_status (
        org_id uuid NOT NULL,
        device_id uuid NOT NULL REFERENCES devices ON DELETE CASCADE,
        status text NOT NULL,
        reported_at timestamptz NOT NULL,
        PRIMARY KEY (org_id, device_id)
      );

      CREATE TABLE tokens (
        id uuid PRIMARY KEY,
        digest bytea NOT NULL UNIQUE,
        user_id uuid NOT NULL REFERENCES users,
        org_id uuid,
        device_id uuid REFERENCES devices ON DELETE CASCADE,
        name text NOT NULL,
        scope text NOT NULL,
        expires_at timestamptz,
        last_used_at timestamptz,
        created_at timestamptz NOT NULL,
        CHECK ((org_id IS NULL) = (device_id IS NULL))
      );
      CREATE INDEX tokens_user ON tokens (user_id, id);
      CREATE INDEX tokens_device ON tokens (device_id) WHERE device_id IS NOT NULL;

      -- Which tokens ended lately, for servers that missed the hint. Not a reference: the tokens are gone.
      CREATE TABLE revocations (
        token_id uuid NOT NULL,
        revoked_at timestamptz NOT NULL DEFAULT clock_timestamp()
      );
      CREATE INDEX revocations_time ON revocations (revoked_at);

      CREATE TABLE enrollment_keys (
        id uuid PRIMARY KEY,
        digest bytea NOT NULL UNIQUE,
        org_id uuid NOT NULL,
        user_id uuid NOT NULL,
        name text NOT NULL,
        expires_at timestamptz NOT NULL,
        uses_left integer NOT NULL CHECK (uses_left >= 0),
        security_groups uuid[] NOT NULL,
        created_at timestamptz NOT NULL,
        FOREIGN KEY (org_id, user_id) REFERENCES members ON DELETE CASCADE
      );
      CREATE INDEX enrollment_keys_list ON enrollment_keys (org_id, id);
      CREATE INDEX enrollment_keys_member ON enrollment_keys (user_id, org_id);

      -- The exact log: one row a revision. Rows of deletions outlive the others as tombstones. Without a reference to
      -- its organization, which every insert would have to lock.
      CREATE TABLE changes (
        org_id uuid NOT NULL,
        revision bigint NOT NULL,
        kind text NOT NULL,
        type text NOT NULL,
        id uuid NOT NULL,
        body text NOT NULL,
        only_for uuid,
        left_at bigint NOT NULL,
        committed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        PRIMARY KEY (org_id, revision)
      );
      CREATE INDEX changes_deletions ON changes (org_id, revision) WHERE type = 'delete';
      CREATE INDEX changes_time ON changes USING brin (committed_at) WITH (pages_per_range = 16, autosummarize = on);
    `,
  },
  {
    version: 2,
    title: 'removed members among the lately ended rights; departures of groups by revision',
    sql: `
      -- Which rights ended lately: a token, or a user's membership.
      ALTER TABLE revocations ALTER COLUMN token_id DROP NOT NULL, ADD COLUMN org_id uuid, ADD COLUMN user_id uuid,
        ADD COLUMN serial bigint GENERATED ALWAYS AS IDENTITY,
        ADD CHECK ((token_id IS NULL) = (org_id IS NOT NULL AND user_id IS NOT NULL));

      CREATE INDEX security_groups_left ON security_groups (org_id, left_at) WHERE left_at > 0;
      CREATE INDEX changes_left ON changes (org_id, left_at) WHERE left_at > 0 AND type = 'delete';
    `,
  },
  {
    version: 3,
    title: 'removed users',
    // The row stays, so that the next sign-in of a removed user does not create a new user.
    sql: 'ALTER TABLE users ADD COLUMN removed_at timestamptz',
  },
  {
    version: 4,
    title: 'the audit',
    // Ids ascend with time, so they order, page and forget. No references but to the user: entries outlive what they tell of.
    sql: `
      CREATE TABLE audit (
        id uuid PRIMARY KEY,
        at timestamptz NOT NULL,
        org_id uuid,
        operation text NOT NULL,
        subject_id uuid,
        revision bigint,
        fields text[],
        user_id uuid NOT NULL,
        credential text NOT NULL,
        credential_id uuid,
        address text NOT NULL,
        request_id text NOT NULL
      );
      CREATE INDEX audit_organization ON audit (org_id, id);
    `,
  },
  {
    version: 5,
    title: 'sessions of browsers',
    // `sealed` holds what the provider gave, readable with the session's own secret only, which is not here.
    sql: `
      CREATE TABLE sessions (
        id uuid PRIMARY KEY,
        digest bytea NOT NULL UNIQUE,
        user_id uuid NOT NULL REFERENCES users,
        sealed bytea,
        created_at timestamptz NOT NULL,
        seen_at timestamptz NOT NULL,
        checked_at timestamptz NOT NULL,
        expires_at timestamptz NOT NULL
      );
      CREATE INDEX sessions_user ON sessions (user_id);
      CREATE INDEX sessions_end ON sessions (expires_at);
    `,
  },
  {
    version: 6,
    title: 'ended rights by transaction',
    // By which a server reads those that it has not seen yet, and no others.
    sql: `
      ALTER TABLE revocations ADD COLUMN transaction_id xid8 NOT NULL DEFAULT pg_current_xact_id();
      CREATE INDEX revocations_transaction ON revocations (transaction_id);
    `,
  },
];
