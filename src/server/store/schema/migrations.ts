/**
 * Owns the schema as a list of migrations. A released migration is never edited: a later need is a later migration, and
 * each is tested on data of the version before.
 */
import { enforcementMigrations } from './enforcement-migrations.ts';
import { exportMigrations } from './export-migrations.ts';
import { firstMigrations, type Migration } from './first-migrations.ts';

export const migrations: readonly Migration[] = [
  ...firstMigrations,
  {
    version: 7,
    title: 'several owners of an organization',
    // `organizations.owner_id` stays: it is the owner of longest standing, kept up to date with every change of owners.
    sql: `
      ALTER TABLE members ADD COLUMN role text NOT NULL DEFAULT 'member' CHECK (role IN ('owner', 'member')), ADD COLUMN owner_since timestamptz;
      UPDATE members m SET role = 'owner', owner_since = o.created_at FROM organizations o WHERE o.id = m.org_id AND o.owner_id = m.user_id;
      ALTER TABLE members ADD CHECK ((role = 'owner') = (owner_since IS NOT NULL));
    `,
  },
  {
    version: 8,
    title: 'counts for the bounds: devices and groups of an organization, ranges of a group, tokens of a user',
    // The counts of an organization stand beside its revision, which every create and every deletion moves anyway.
    sql: `
      ALTER TABLE heads ADD COLUMN devices integer NOT NULL DEFAULT 0, ADD COLUMN groups integer NOT NULL DEFAULT 0;
      UPDATE heads h SET devices = (SELECT count(*) FROM devices d WHERE d.org_id = h.org_id),
        groups = (SELECT count(*) FROM security_groups g WHERE g.org_id = h.org_id);

      ALTER TABLE security_groups ADD COLUMN inbound_ranges integer NOT NULL DEFAULT 0, ADD COLUMN outbound_ranges integer NOT NULL DEFAULT 0;
      UPDATE security_groups SET
        inbound_ranges = (SELECT coalesce(sum(json_array_length(r -> 'ip_ranges')), 0) FROM json_array_elements(inbound_rules::json) AS r),
        outbound_ranges = (SELECT coalesce(sum(json_array_length(r -> 'ip_ranges')), 0) FROM json_array_elements(outbound_rules::json) AS r);

      CREATE INDEX tokens_of_user ON tokens (user_id) WHERE device_id IS NULL;
    `,
  },
  {
    version: 9,
    title: 'labels and further addresses of devices; devices by identity',
    // Identities have a table of their own: an index on the device's row would be written by every change of an endpoint. No body changes:
    // what is empty is omitted.
    sql: `
      ALTER TABLE devices ADD COLUMN addresses text[] NOT NULL DEFAULT '{}', ADD COLUMN labels text[] NOT NULL DEFAULT '{}';
      ALTER TABLE enrollment_keys ADD COLUMN labels text[] NOT NULL DEFAULT '{}';

      CREATE TABLE device_identities (
        device_id uuid PRIMARY KEY REFERENCES devices ON DELETE CASCADE,
        org_id uuid NOT NULL,
        -- Of the last change of what the body holds.
        revision bigint NOT NULL,
        body text NOT NULL
      );
      CREATE UNIQUE INDEX device_identities_revision ON device_identities (org_id, revision);
      INSERT INTO device_identities (device_id, org_id, revision, body)
        SELECT id, org_id, revision, concat('{"id":"', id, '","hostname":', to_json(hostname)::text, ',"tunnel_ip":', to_json(tunnel_ip)::text,
          CASE WHEN security_groups <> '{}' THEN ',"security_groups":' || to_json(security_groups)::text END) FROM devices;

      -- NULL where a change leaves the identity as it was.
      ALTER TABLE changes ADD COLUMN identity text;
      UPDATE changes c SET identity = concat('{"id":"', c.id, '","hostname":', coalesce((b.json -> 'hostname')::text, '""'),
          ',"tunnel_ip":', coalesce((b.json -> 'tunnel_ip')::text, '""'), ',"security_groups":' || (b.json -> 'security_groups')::text)
        FROM (SELECT org_id, revision, (body || '}')::json AS json FROM changes WHERE kind = 'device') b
        WHERE c.org_id = b.org_id AND c.revision = b.revision;
    `,
  },
  {
    version: 10,
    title: 'history: every state of groups and of what decides the policy of devices',
    // One index serves the states of a record, newest first, and the newest state of every record up to a revision.
    // There are no references: states outlive their records. The current record becomes the first state of each; who
    // wrote it is not known.
    sql: `
      CREATE TABLE history (
        org_id uuid NOT NULL,
        kind text NOT NULL,
        id uuid NOT NULL,
        revision bigint NOT NULL,
        type text NOT NULL,
        owner_id uuid,
        only_for uuid,
        user_id uuid,
        at timestamptz NOT NULL,
        body text NOT NULL
      );
      INSERT INTO history SELECT org_id, 'security-groups', id, revision, 'change', user_id,
        CASE WHEN user_id IS NOT NULL AND NOT is_applied THEN user_id END, NULL, updated_at, body FROM security_groups;
      INSERT INTO history SELECT org_id, 'device', id, revision, 'change', user_id, NULL, NULL, updated_at, body FROM devices;
      CREATE UNIQUE INDEX history_states ON history (org_id, kind, id, revision DESC);
      CREATE INDEX history_time ON history USING brin (at) WITH (pages_per_range = 16, autosummarize = on);

      -- From which revision on the history knows the whole organization.
      ALTER TABLE heads ADD COLUMN history_start bigint NOT NULL DEFAULT 0;
      UPDATE heads SET history_start = revision;

      -- What was asked and stood already.
      ALTER TABLE audit ADD COLUMN unchanged boolean;
    `,
  },
  {
    version: 11,
    title: 'webhooks, what they were told and what is to be delivered',
    // The secret signs deliveries, so it is stored in plain text. A condition's row says that its alert was recorded
    // and that it still holds.
    sql: `
      CREATE TABLE webhooks (
        id uuid PRIMARY KEY,
        org_id uuid NOT NULL REFERENCES organizations,
        name text NOT NULL,
        url text NOT NULL,
        secret text NOT NULL,
        events text[] NOT NULL,
        offline_after integer NOT NULL,
        -- When, how often and whether ever its conditions were looked at.
        looked_at timestamptz NOT NULL,
        looks bigint NOT NULL,
        is_new boolean NOT NULL,
        created_at timestamptz NOT NULL,
        updated_at timestamptz NOT NULL
      );
      CREATE INDEX webhooks_list ON webhooks (org_id, id);
      CREATE TABLE webhook_conditions (
        webhook_id uuid NOT NULL REFERENCES webhooks ON DELETE CASCADE,
        event text NOT NULL,
        subject_id uuid NOT NULL,
        occurrence text NOT NULL,
        PRIMARY KEY (webhook_id, event, subject_id)
      );
      CREATE TABLE webhook_deliveries (
        id uuid PRIMARY KEY,
        webhook_id uuid NOT NULL REFERENCES webhooks ON DELETE CASCADE,
        org_id uuid NOT NULL,
        event text NOT NULL,
        body text NOT NULL,
        state text NOT NULL,
        attempts integer NOT NULL,
        failure text,
        created_at timestamptz NOT NULL,
        next_at timestamptz NOT NULL
      );
      CREATE INDEX webhook_deliveries_list ON webhook_deliveries (webhook_id, id);
      CREATE INDEX webhook_deliveries_due ON webhook_deliveries (next_at) WHERE state = 'pending';
    `,
  },
  {
    version: 12,
    title: 'groups that apply by label, and guardrails',
    // Selectors stand a second time as rows, by which devices are found; a selector of all devices asks for no label.
    sql: `
      ALTER TABLE security_groups ADD COLUMN applies_to text NOT NULL DEFAULT '[]',
        ADD COLUMN guardrail text CHECK (guardrail IN ('forbid', 'require')),
        ADD CHECK (applies_to = '[]' OR (user_id IS NULL AND NOT is_default)),
        ADD CHECK (guardrail IS NULL OR applies_to <> '[]');

      CREATE TABLE group_selectors (
        group_id uuid NOT NULL REFERENCES security_groups ON DELETE CASCADE,
        org_id uuid NOT NULL,
        labels text[] NOT NULL
      );
      CREATE INDEX group_selectors_group ON group_selectors (group_id);
      CREATE INDEX group_selectors_organization ON group_selectors (org_id);
    `,
  },
  ...enforcementMigrations,
  ...exportMigrations,
];
