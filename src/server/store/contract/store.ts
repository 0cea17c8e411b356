/**
 * Owns the store's interface: what callers may ask of the database, and what the store promises about the answers.
 *
 * Promises, for everything below:
 * - **Revisions.** Each organization has one counter, shared by devices, groups and the organization's own record.
 *   Every changed resource takes a revision of its own. Revisions have no gaps and become visible in order: a reader
 *   that sees N+1 can read N. A write that changes nothing takes none and returns the current record.
 * - **Serial.** All writes to one organization, from any number of servers, happen one after the other. What an
 *   operation requires (membership, existence, uniqueness, phase limits, expected revision) holds at the moment it
 *   commits.
 * - **Own outcome.** Concurrent writes may share a transaction; the failure of one never changes another's outcome.
 * - **Durable.** A resolved write survives a crash of this process and of PostgreSQL. A write that failed with
 *   `outcome_unknown` may or may not have happened; one that failed with `unavailable` has not.
 * - **Errors.** Everything here fails with `StoreError` only.
 * - **Lists.** They are in the order of creation (ids are time-ordered) and page by `after`, the last id seen: a page
 *   never repeats or skips a record that existed throughout.
 */
import type { Organization, OrganizationStep } from '../../../organization/organization.ts';
import type { OrganizationId } from '../../../policy/ids.ts';
import type { Access } from './access.ts';
import type { Audit } from './audit.ts';
import type { Broadcast, SharedTimeline, WorkerPeers } from './broadcast.ts';
import type { CallerLookups } from './caller-lookups.ts';
import type { ChangeLog } from './change-log.ts';
import type { AuditExport } from './change/audit-export.ts';
import type { IdempotencyKeys } from './change/idempotency.ts';
import type { ChangeSets } from './change/change-sets.ts';
import type { Ends } from './change/ends.ts';
import type { Invitations } from './change/invitations.ts';
import type { Trials } from './change/trials.ts';
import type { Devices } from './devices.ts';
import type { EnrollmentKeys } from './enrollment-keys.ts';
import type { Evidence } from './evidence/evidence.ts';
import type { FleetSamples } from './fleet-samples.ts';
import type { Flows } from './flows/flows.ts';
import type { RuleUsageCounts } from './flows/rule-usage.ts';
import type { Groups } from './groups.ts';
import type { History } from './history.ts';
import type { Leases } from './leases.ts';
import type { Members } from './members.ts';
import type { Organizations } from './organizations.ts';
import type { Phase } from './phase.ts';
import type { PolicyTests } from './change/policy-tests.ts';
import type { Presence } from './presence.ts';
import type { Quotas } from './quotas.ts';
import type { Receipts } from './receipts.ts';
import type { Retention } from './retention.ts';
import type { Sessions } from './sessions.ts';
import type { Tokens } from './tokens.ts';
import type { Users } from './users.ts';
import type { Webhooks } from './webhooks.ts';

export interface Store {
  readonly users: Users;
  readonly tokens: Tokens;
  readonly sessions: Sessions;
  readonly organizations: Organizations;
  readonly members: Members;
  readonly invitations: Invitations;
  readonly access: Access;
  readonly changeSets: ChangeSets;
  readonly idempotencyKeys: IdempotencyKeys;
  readonly groups: Groups;
  readonly devices: Devices;
  readonly presence: Presence;
  readonly receipts: Receipts;
  readonly samples: FleetSamples;
  readonly flows: Flows;
  readonly ruleUsage: RuleUsageCounts;
  readonly enrollmentKeys: EnrollmentKeys;
  readonly log: ChangeLog;
  readonly models: Models;
  readonly broadcast: Broadcast;
  readonly history: History;
  readonly policyTests: PolicyTests;
  readonly trials: Trials;
  /** Ends of trials and isolations by their time, of all organizations. */
  readonly ends: Ends;
  readonly leases: Leases;
  /** All that is kept for a limited time, each by itself. */
  readonly retention: readonly Retention[];
  readonly webhooks: Webhooks;
  readonly audit: Audit;
  readonly evidence: Evidence;
  readonly auditExport: AuditExport;
  /** The same lookups for batched callers, such as streams that reconnect. */
  readonly batched: CallerLookups;
  /** Resolves when the database answers; fails with `unavailable` otherwise. */
  ping(): Promise<void>;
  /** Resolves while the database has the schema of this program; fails with `schema_too_new` once a later program has migrated it. */
  checkSchema(): Promise<void>;
  /**
   * The secret behind TLS session tickets in the current period, and how long the period still lasts by the database's clock. The first server that
   * asks in a period makes the secret, all others get the same. Secrets of other periods are deleted then.
   */
  ticketSecret(periodMs: number): Promise<TicketSecret>;
  /** What stored data goes beyond this phase's limits, one sentence each; empty when the phase may be used. */
  phaseObstacles(phase: Phase): Promise<readonly string[]>;
  /** Finishes what is in flight, records the last uses of tokens, closes every connection. */
  close(): Promise<void>;
}

export interface TicketSecret {
  readonly secret: Buffer;
  readonly endsInMs: number;
}

/** Does work that grows with an organization in short steps, so that others are served in between. */
export interface ShortSteps {
  /** To be awaited before the next step; undefined where it can be done at once. */
  next(): Promise<void> | undefined;
  each<T>(items: Iterable<T>, work: (item: T) => void): Promise<void>;
  /** Without a wait where there are no more than `atOnce` steps. */
  run<T>(steps: Generator<void, T>, options?: { readonly atOnce?: number }): Promise<T>;
}

/** An organization, and how it came to what it is. */
export interface FollowedOrganization {
  readonly organization: Organization;
  /** Every step since what was given, in the order of revisions; undefined where not all of them are known. */
  readonly steps: readonly OrganizationStep[] | undefined;
}

/** The models of organizations. A model never changes: a later state is another one. */
export interface Models {
  /** The organization with everything that was written before this call. */
  read(org: OrganizationId): Promise<Organization>;
  /** The organization with everything that was written before this call, and how it came to that since `last`, which is an earlier answer. */
  follow(org: OrganizationId, last?: FollowedOrganization): Promise<FollowedOrganization>;
  /** The organization as it was at most so many milliseconds ago; undefined where it is not known here. */
  recent(org: OrganizationId, withinMs: number): Organization | undefined;
  /** The organization at this revision or a later one: without a question to the database where it is known here. */
  atLeast(org: OrganizationId, revision: number): Promise<Organization>;
}

export interface StoreOptions {
  /** A PostgreSQL connection string; with a unix socket: `postgres://user@/database?host=/socket/dir`. */
  readonly url: string;
  /** Where to LISTEN for the hints of other servers, if `url` leads through a pooler. */
  readonly listenUrl?: string | undefined;
  readonly phase: Phase;
  /** Bounds other than the default ones. */
  readonly quotas?: Partial<Quotas> | undefined;
  /** For work that grows with an organization; slices of its own if absent. */
  readonly slices?: ShortSteps | undefined;
  /** Milliseconds since the epoch. */
  readonly clock?: (() => number) | undefined;
  /** Fills bytes for ids. */
  readonly random?: ((bytes: Uint8Array) => void) | undefined;
  /** How long deletions are kept; 90 days by default. */
  readonly deletionRetentionMs?: number | undefined;
  /** How long the audit is kept; a year by default. */
  readonly auditRetentionMs?: number | undefined;
  /** How long states that no longer stand are kept; a year by default. */
  readonly historyRetentionMs?: number | undefined;
  /** How long observed traffic is kept, 14 days by default; and how many sums of an organization, 10,000,000 by default. */
  readonly flowRetentionMs?: number | undefined;
  readonly flowsPerOrganization?: number | undefined;
  /** How long the exact log is kept; 10 minutes by default. */
  readonly logRetentionMs?: number | undefined;
  /** Connections for who is asking (2), for reading (4), for statements that write by themselves (8) and for transactions (12), each opened when needed; one more carries hints. */
  readonly callerConnections?: number | undefined;
  readonly readConnections?: number | undefined;
  readonly writeConnections?: number | undefined;
  readonly transactionConnections?: number | undefined;
  /** The other processes of this server. They learn of commits directly; other servers learn of them through the database. */
  readonly workerPeers?: WorkerPeers | undefined;
  /** What the processes of this server know together of the primary. */
  readonly timeline?: SharedTimeline | undefined;
  /** Receives warnings about background work: lost connections, failed hints. */
  readonly onWarning?: ((message: string, cause: unknown) => void) | undefined;
}
