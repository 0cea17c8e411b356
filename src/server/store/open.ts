/**
 * Owns the opening of a store: first the schema, then the connections, then its parts.
 *
 * Promises, for everything that it opens:
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
import type { Phase } from '../../organization/decide/phase.ts';
import { randomFillSync } from 'node:crypto';
import { processorMs, processSlices } from '../scheduling/time-slices.ts';
import { WorkRefused, WorkShares } from '../scheduling/work-budget.ts';
import { accessIn } from './accounts/access.ts';
import { auditIn } from './log/audit.ts';
import { auditExportIn } from './log/audit-export.ts';
import { PipelinedConnections, Transactions } from './postgres/connection.ts';
import type { Context } from './write/context.ts';
import { devicesIn } from './devices/devices.ts';
import { enrollmentKeysIn } from './devices/enrollment-keys.ts';
import { evidenceIn } from './evidence/evidence.ts';
import { flowsIn } from './flows/flows.ts';
import { refusedReportsIn } from './flows/refused-reports.ts';
import { ruleUsageIn } from './flows/rule-usage.ts';
import { leasesIn } from './log/leases.ts';
import { fleetSamplesIn, sampleRetentionMs } from './log/fleet-samples.ts';
import { presenceIn } from './devices/presence.ts';
import { receiptsIn } from './devices/receipts.ts';
import { changeSetsIn } from './changes/change-sets.ts';
import { groupsIn } from './groups/groups.ts';
import { Hints } from './postgres/hints.ts';
import { Primary, type SharedTimeline } from './postgres/primary.ts';
import { changeLogIn } from './log/change-log.ts';
import { historyIn } from './log/history.ts';
import { invitationsIn } from './accounts/invitations.ts';
import { membersIn } from './accounts/members.ts';
import { migrate } from './schema/migrate.ts';
import { HistoryGuard } from './schema/history-guard.ts';
import { organizationsIn } from './accounts/organizations.ts';
import { phaseObstacles } from './schema/phases.ts';
import { sessionsIn } from './accounts/sessions.ts';
import { ticketSecretIn } from './accounts/ticket-secret.ts';
import { idempotencyKeyMs } from './data/idempotency.ts';
import { removalsByAge } from './retention.ts';
import { statement } from './postgres/sql.ts';
import { defaultQuotas, groupQuotas, type Quotas } from './data/quotas.ts';
import { refuse } from '../problems.ts';
import { tokensIn, UseLog } from './accounts/tokens.ts';
import { endsIn } from './trials/ends.ts';
import { trialsIn } from './trials/trials.ts';
import { usersIn } from './accounts/users.ts';
import { policyTestCheck } from './policy-tests/check.ts';
import { policyTestsIn } from './policy-tests/policy-tests.ts';
import { StateMemory } from './policy-tests/state.ts';
import { FollowedLogs, type FollowSettings } from './follow/followed-logs.ts';
import { OrganizationModels } from './model/organizations.ts';
import { webhooksIn } from './webhooks/webhooks.ts';
import { idempotencyKeysIn } from './write/idempotency.ts';
import { idMaker } from './write/uuid.ts';
import type { Turns } from './write/turns.ts';
import { Writer } from './write/writer.ts';
import type { WorkerPeers } from './postgres/worker-peer-hints.ts';
import type { ShortSteps } from './data/short-steps.ts';

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
  /** What is kept of the log in memory. */
  readonly follow?: Partial<FollowSettings> | undefined;
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

const day = 86_400_000;
/** The usage of rules is told of 30 days. */
const leastUsageRetentionMs = 31 * day;
const deliveryRetentionMs = 7 * day;
const ping = statement<never>('ping', 'SELECT');
/** Values: as `groupQuotas`. */
const setGroupLimits = statement<never>(
  'set_group_limits',
  `INSERT INTO group_limits AS l (is_row, ${groupQuotas.join(', ')}) VALUES (true, $1, $2, $3, $4, $5)
   ON CONFLICT (is_row) DO UPDATE SET (${groupQuotas.join(', ')}) = ROW ($1, $2, $3, $4, $5)
   WHERE (${groupQuotas.map((name) => `l.${name}`).join(', ')}) <> ($1, $2, $3, $4, $5)`,
);
const readVersion = statement<{ version: number }>(
  'read_schema_version',
  'SELECT max(version) AS version FROM schema_versions',
);
const recordUsesEveryMs = 30_000;

/** Writes that take long have half of the connections for transactions, one of them each user. The others wait outside of a transaction. */
function turnsOf(connections: number): Turns {
  const shares = new WorkShares({
    slices: processSlices(),
    monotonic: () => performance.now(),
    processorMs,
    limits: {
      perUser: 1,
      perOrganization: 1,
      perProcess: Math.max(1, Math.floor(connections / 2)),
      waitingPerUser: 8,
      // What the tests themselves may take is counted in steps.
      workMs: Number.POSITIVE_INFINITY,
      answerMs: 10_000,
    },
  });
  return {
    async take(user, organization) {
      const work = shares.budgetFor({ user, organization });
      try {
        await work.next();
      } catch (cause) {
        if (cause instanceof WorkRefused) refuse({ code: 'busy', seconds: cause.seconds });
        throw cause;
      }
      return () => work.end();
    },
  };
}

/** Migrates the database if need be and opens the store. Fails with `StoreError`: `unavailable` or `schema_too_new`. */
export async function openStore(options: StoreOptions) {
  const clock = options.clock ?? Date.now;
  const random = options.random ?? ((bytes: Uint8Array) => void randomFillSync(bytes));
  const onWarning = options.onWarning ?? (() => {});
  const primary = new Primary(options.url, { timeline: options.timeline });
  const known = await migrate(primary);
  const connection = { primary, onWarning };
  const callers = new PipelinedConnections(options.callerConnections ?? 2, { ...connection, readsOnly: true });
  const reads = new PipelinedConnections(options.readConnections ?? 4, { ...connection, readsOnly: true });
  const writes = new PipelinedConnections(options.writeConnections ?? 8, connection);
  const { transactionConnections = 12 } = options;
  const transactions = new Transactions(transactionConnections, connection);
  const newId = idMaker({ clock, random });
  const hints = new Hints({
    ...connection,
    listenAt:
      options.listenUrl === undefined ? undefined : { at: new Primary(options.listenUrl), ordinary: reads, newId },
    workerPeers: options.workerPeers && { way: options.workerPeers, name: newId() },
  });
  const guard = new HistoryGuard({ reads, transactions, onWarning });
  const slices = options.slices ?? processSlices();
  const connected = { reads, writes, transactions, hints, guard };
  const log = changeLogIn(connected, {
    logMs: options.logRetentionMs ?? 600_000,
    deletionsMs: options.deletionRetentionMs ?? 90 * day,
  });
  const logs = new FollowedLogs({
    source: log,
    settings: options.follow,
    timers: { now: clock, defer: (run) => void setImmediate(run), later: (run, ms) => void setTimeout(run, ms) },
    onWarning,
  });
  const models = new OrganizationModels({
    logs,
    source: log,
    slices,
    monotonic: () => performance.now(),
    clock,
  });
  const testedStates = new StateMemory({ clock, slices, models });
  const quotas = { ...defaultQuotas, ...options.quotas };
  const writer = new Writer({
    connections: writes,
    transactions,
    guard,
    context: { phase: options.phase, clock, newId, quotas },
    check: policyTestCheck(testedStates),
    models,
    turns: turnsOf(transactionConnections),
    committed: (org, { head, logged: entries }) => {
      if (head !== undefined) guard.wrote(org, head);
      hints.tell({ organizations: [org], ...(entries && { logged: [{ organization_id: org, entries }] }) });
    },
  });
  const context: Context = {
    phase: options.phase,
    quotas,
    callers,
    ...connected,
    writer,
    models,
    clock,
    newId,
  };
  const uses = new UseLog(context);
  await writes.run(
    setGroupLimits,
    groupQuotas.map((name) => quotas[name]),
  );
  await hints.start();
  await guard.verify();
  const recording = setInterval(() => {
    uses.flush().catch((cause: unknown) => onWarning('cannot save the last use of tokens', cause));
  }, recordUsesEveryMs).unref();

  const close = async (): Promise<void> => {
    clearInterval(recording);
    await writer.settle();
    await uses.flush().catch(() => {});
    logs.close();
    await hints.close();
    transactions.close();
    await Promise.all([callers.close(), reads.close(), writes.close()]);
  };
  let closing: Promise<void> | undefined;

  const flowRetentionMs = options.flowRetentionMs ?? 14 * day;
  const usageRetentionMs = Math.max(flowRetentionMs, leastUsageRetentionMs);
  const members = membersIn(context);
  const users = usersIn(context);
  const tokens = tokensIn(context, uses);
  const sessions = sessionsIn(context, onWarning);
  const devices = devicesIn(context);
  const trials = trialsIn(context);
  const historyMs = options.historyRetentionMs ?? 365 * day;
  const history = historyIn(context, historyMs);
  const audit = auditIn(context, options.auditRetentionMs ?? 365 * day);
  const auditExport = auditExportIn(context, refusedReportsIn(context));
  const presence = presenceIn(context);
  const idempotencyKeys = idempotencyKeysIn(context);
  const flows = flowsIn(context, {
    slices,
    keepMs: flowRetentionMs,
    most: options.flowsPerOrganization ?? 10_000_000,
  });
  return {
    users,
    tokens,
    sessions,
    organizations: organizationsIn(context),
    members,
    invitations: invitationsIn(context),
    access: accessIn(context),
    changeSets: changeSetsIn(context, testedStates),
    idempotencyKeys,
    groups: groupsIn(context),
    devices,
    presence,
    receipts: receiptsIn(context),
    samples: fleetSamplesIn(context),
    flows,
    ruleUsage: ruleUsageIn(context, { keepMs: usageRetentionMs }),
    enrollmentKeys: enrollmentKeysIn(context),
    history,
    policyTests: policyTestsIn(context, testedStates),
    trials,
    /** Ends of trials and isolations by their time, of all organizations. */
    ends: endsIn(context, { trials, devices }),
    webhooks: webhooksIn(context),
    audit,
    evidence: evidenceIn(context, options.auditRetentionMs ?? 365 * day),
    auditExport,
    log,
    /** The log as this process follows it, for streams and models. */
    logs,
    models,
    leases: leasesIn(context),
    /** All that is kept for a limited time, each by itself. */
    retention: [
      ...removalsByAge(context, {
        change_sets: historyMs,
        trials: historyMs,
        idempotency_keys: idempotencyKeyMs,
        webhook_deliveries: deliveryRetentionMs,
        sessions: 0,
        used_tickets: 0,
        fleet_samples: sampleRetentionMs,
        flows: flowRetentionMs,
        flow_coverage: usageRetentionMs,
        refusal_levels: flowRetentionMs,
        rule_usage: usageRetentionMs,
      }),
      { what: 'changes', forget: () => log.compact() },
      { what: 'states', forget: () => history.forget() },
      { what: 'audit entries', forget: () => audit.forget() },
      { what: 'entries for the audit log', forget: () => auditExport.forget() },
      { what: 'idempotency keys beyond those that are kept', forget: () => idempotencyKeys.forget() },
      { what: 'presence', forget: () => presence.forget() },
      { what: 'observed traffic', forget: () => flows.forget() },
    ],

    /**
     * Carries messages that the store does not read. They may be lost, and may arrive more than once. A message is a letter and text without spaces; the store's
     * own hints use the letters c, d, m, o and s.
     *
     * @example
     * broadcast.listen((message) => log.info(message));
     * broadcast.send([`r${org}`]);
     */
    broadcast: {
      /** Delivers to the listeners of this process at once, and to those of all other processes soon. */
      send: (messages: readonly string[]): void => hints.tell({ messages }),
      /** Returns what ends it. */
      listen: (listener: (message: string) => void): (() => void) =>
        hints.on(({ messages }) => messages.forEach((message) => listener(message))),
    },

    /**
     * The lookups that a request needs first, for callers that come in thousands and can wait some milliseconds to be answered together, such as
     * streams that reconnect. No answer is older than its question.
     */
    batched: { users: users.batched, tokens: tokens.batched, sessions: sessions.batched, members: members.batched },

    /** Resolves when the database answers; fails with `unavailable` otherwise. */
    async ping(): Promise<void> {
      await reads.run(ping, []);
    },

    /** Resolves while the database has the schema of this program; fails with `schema_too_new` once a later program has migrated it. */
    async checkSchema(): Promise<void> {
      const found = (await reads.run(readVersion, []))[0]?.version ?? 0;
      if (found > known) refuse({ code: 'schema_too_new', found, known });
    },

    /**
     * The secret behind TLS session tickets in the current period, and how long the period still lasts by the database's clock. The first server that
     * asks in a period makes the secret, all others get the same. Secrets of other periods are deleted then.
     */
    ticketSecret: ticketSecretIn(context, random),

    /** What stored data goes beyond this phase's limits, one sentence each; empty when the phase may be used. */
    async phaseObstacles(phase: Phase): Promise<readonly string[]> {
      return phaseObstacles(reads, phase);
    },

    /** Finishes what is in flight, records the last uses of tokens, closes every connection. */
    close(): Promise<void> {
      closing ??= close();
      return closing;
    },
  };
}

export type Store = Awaited<ReturnType<typeof openStore>>;
