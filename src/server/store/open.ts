/** Owns the opening of a store: first the schema, then the connections, then the parts of the interface. */
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
import { Primary } from './postgres/primary.ts';
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
import { idempotencyKeyMs } from './contract/change/idempotency.ts';
import { removalsByAge } from './retention.ts';
import { statement } from './postgres/sql.ts';
import { defaultQuotas, groupQuotas } from './contract/quotas.ts';
import { refuse } from '../problems.ts';
import type { Store, StoreOptions } from './contract/store.ts';
import { tokensIn, UseLog } from './accounts/tokens.ts';
import { endsIn } from './trials/ends.ts';
import { trialsIn } from './trials/trials.ts';
import { usersIn } from './accounts/users.ts';
import { policyTestCheck } from './policy-tests/check.ts';
import { policyTestsIn } from './policy-tests/policy-tests.ts';
import { StateMemory } from './policy-tests/state.ts';
import { OrganizationModels } from './model/organizations.ts';
import { webhooksIn } from './webhooks/webhooks.ts';
import { idempotencyKeysIn } from './write/idempotency.ts';
import { idMaker } from './write/uuid.ts';
import type { Turns } from './write/turns.ts';
import { Writer } from './write/writer.ts';

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
export async function openStore(options: StoreOptions): Promise<Store> {
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
  const models = new OrganizationModels({
    // What it reads from is made of what it is a part of.
    log: {
      heads: (...asked) => log.heads(...asked),
      readState: (...asked) => log.readState(...asked),
      readChanges: (...asked) => log.readChanges(...asked),
    },
    slices,
    monotonic: () => performance.now(),
    clock,
  });
  const testedStates = new StateMemory({ clock, slices, models });
  const quotas = { ...defaultQuotas, ...options.quotas };
  const writer = new Writer({
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
    reads,
    writes,
    transactions,
    guard,
    writer,
    models,
    hints,
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
    await hints.close();
    transactions.close();
    await Promise.all([callers.close(), reads.close(), writes.close()]);
  };
  let closing: Promise<void> | undefined;

  const flowRetentionMs = options.flowRetentionMs ?? 14 * day;
  const usageRetentionMs = Math.max(flowRetentionMs, leastUsageRetentionMs);
  const log = changeLogIn(context, {
    logMs: options.logRetentionMs ?? 600_000,
    deletionsMs: options.deletionRetentionMs ?? 90 * day,
  });
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
    ends: endsIn(context, { trials, devices }),
    webhooks: webhooksIn(context),
    audit,
    evidence: evidenceIn(context, options.auditRetentionMs ?? 365 * day),
    auditExport,
    log,
    models,
    leases: leasesIn(context),
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

    broadcast: {
      send: (messages) => hints.tell({ messages }),
      listen: (listener) => hints.on(({ messages }) => messages.forEach((message) => listener(message))),
    },

    batched: { users: users.batched, tokens: tokens.batched, sessions: sessions.batched, members: members.batched },

    async ping() {
      await reads.run(ping, []);
    },

    async checkSchema() {
      const found = (await reads.run(readVersion, []))[0]?.version ?? 0;
      if (found > known) refuse({ code: 'schema_too_new', found, known });
    },

    ticketSecret: ticketSecretIn(context, random),

    async phaseObstacles(phase) {
      return phaseObstacles(reads, phase);
    },

    close() {
      closing ??= close();
      return closing;
    },
  };
}
