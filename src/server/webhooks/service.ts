/**
 * Owns the webhook work of one process, two kinds of the loop of due work: it looks for conditions and delivers alerts. Every process
 * of every server does both. Processes claim rows in the database, so that one process at a time holds each delivery. After a crash, its
 * deliveries are due again when their leases end.
 */
import type { Counter } from 'prom-client';
import type { AlertEvent } from '../../api/alerts/events.ts';
import type { Convergence } from '../convergence/contract.ts';
import type { OrganizationId, WebhookId } from '../../policy/ids.ts';
import type { Store } from '../store/open.ts';
import type { DueWork } from '../scheduling/due-work.ts';
import { processorMs, type TimeSlices } from '../scheduling/time-slices.ts';
import { WorkShares, type WorkBudget } from '../scheduling/work-budget.ts';
import type { ClaimedDelivery, ClaimedLook, Condition } from '../store/webhooks/webhook-row.ts';
import { conditionsOf, ruleWarningMs, trialNewsMs } from './conditions.ts';
import { FairPools, type Batch } from './fair-pools.ts';
import type { WebhookHost } from '../limits/webhook-hosts.ts';
import { send, type SendOptions } from './send.ts';
import { signedHeaders } from './sign.ts';
import { GracePeriod } from './grace-period.ts';

export interface WebhookServiceOptions {
  /** Has work done again and again; gives back what asks it again at once. */
  readonly start: (work: DueWork) => () => void;
  readonly store: Pick<Store, 'webhooks' | 'enrollmentKeys' | 'flows' | 'policyTests' | 'groups' | 'trials' | 'ping'>;
  readonly convergence: Pick<Convergence, 'read'>;
  readonly slices: TimeSlices;
  readonly hosts: readonly WebhookHost[];
  readonly clock: () => number;
  /** From 0 up to but not including 1. */
  readonly random: () => number;
  readonly outcomes: Pick<Counter<'outcome'>, 'inc'>;
  readonly onWarning: (message: string, cause: unknown) => void;
  readonly settings?: Partial<WebhookSettings> | undefined;
  readonly lookup?: SendOptions['lookup'];
}

export interface WebhookSettings {
  /** How often a webhook's conditions are looked at. */
  readonly scanEveryMs: number;
  /** For so long after a start or an outage nothing is looked at: devices need a moment to come back. */
  readonly settleMs: number;
  /** How often this process looks for something to do, where nothing ends before. */
  readonly workEveryMs: number;
  readonly timeoutMs: number;
  /** An attempt that takes longer gives its place to others. */
  readonly slowMs: number;
  /** Longer than an attempt may take: no other process takes it meanwhile. */
  readonly leaseMs: number;
  readonly firstRetryMs: number;
  readonly longestRetryMs: number;
  readonly giveUpAfterMs: number;
}

export const webhookSettings: WebhookSettings = {
  scanEveryMs: 15_000,
  settleMs: 60_000,
  workEveryMs: 1_000,
  timeoutMs: 10_000,
  slowMs: 1_000,
  leaseMs: 60_000,
  firstRetryMs: 5_000,
  longestRetryMs: 3_600_000,
  giveUpAfterMs: 86_400_000,
};

const trialEvents = new Set<AlertEvent>(['trial.started', 'trial.confirmed', 'trial.reverted', 'trial.expired']);
/** What happened before somebody wanted to hear of it is no news. When drift was repaired is not known: what the first look finds counts as earlier. */
const isNews = ({ event, at }: Condition, { is_new, created_at }: ClaimedLook): boolean =>
  at === undefined ? !is_new || event !== 'device.drift_repaired' : Date.parse(at) >= Date.parse(created_at);
const nothingElse = { keys: [], failingTests: [], expiringRules: [], trials: [], surges: [] };

/** Deliveries that one process has in flight at a time in each pool, and those of one organization: a receiver that hangs costs its own organization's turn. */
const poolSettings = { places: 64, slowForMs: 600_000 };
/** Deliveries that a process has in flight at a time. */
export const mostDeliveries = 2 * poolSettings.places;
const mostOfOrganization = { fast: 4, slow: 1 };

/** Looks of one process, one of an organization at a time: a large organization costs its own turn. */
const lookPools = { places: 4, slowForMs: 60_000 };
/** What was cut off may still wait for the database. */
const mostLooks = 16;
const lookLimits = {
  perUser: 1,
  perOrganization: 1,
  perProcess: mostLooks,
  waitingPerUser: 1,
  // For 100,000 devices it takes about a second.
  workMs: 10_000,
  answerMs: 60_000,
};
const page = 5_000;
/** A process that looked at a webhook this recently has its organization's state in memory. */
const ownMs = 45_000;
/** A process looks at its own webhooks this much sooner, so that not every process reads every organization. */
const ownShare = 0.8;

/** Doubles with each attempt, spread so that receivers which come back are not met by everything at once. */
export function retryAfter(attempt: number, random: number, settings: WebhookSettings): number {
  const full = Math.min(settings.longestRetryMs, settings.firstRetryMs * 2 ** Math.min(attempt - 1, 30));
  return Math.round(full * (0.5 + random / 2));
}

/** Looks at conditions, and sends deliveries. What is under way when the process stops is ended; it is done again, here or elsewhere. */
export function startWebhooks(options: WebhookServiceOptions): void {
  const { store, convergence, slices, clock, hosts, onWarning } = options;
  const settings = { ...webhookSettings, ...options.settings };
  const stopped = new AbortController();
  const gracePeriod = new GracePeriod(settings.settleMs);
  /** When this process last looked at each webhook. */
  const looks = new Map<WebhookId, number>();

  async function all<T>(
    read: (after: string | undefined) => Promise<readonly T[]>,
    idOf: (row: T) => string,
  ): Promise<T[]> {
    const rows: T[] = [];
    for (let after: string | undefined; ;) {
      const part = await read(after);
      rows.push(...part);
      const last = part.at(-1);
      if (part.length < page || last === undefined) return rows;
      after = idOf(last);
    }
  }

  const warn = (cause: unknown): void => {
    if (!stopped.signal.aborted) onWarning('cannot deliver webhooks; trying again', cause);
  };

  /** A process that cannot reach the database may have missed signs of devices too. */
  async function ask<T>(question: () => Promise<T>): Promise<T> {
    try {
      return await question();
    } catch (cause) {
      gracePeriod.interrupted();
      throw cause;
    }
  }

  const lookPool = new FairPools(lookPools);
  const lookShares = new WorkShares({ slices, monotonic: () => performance.now(), processorMs, limits: lookLimits });
  /** By organization, the looks under way. */
  const looking = new Map<OrganizationId, Promise<void>>();

  function claimScan(pool: 'fast' | 'slow'): Promise<ClaimedLook | undefined> {
    for (const [id, at] of looks) if (clock() - at > ownMs) looks.delete(id);
    const own = { ids: [...looks.keys()], everyMs: settings.scanEveryMs * ownShare };
    const [slow, busy] = [lookPool.slowOrganizations(clock()), [...looking.keys()]];
    const among = pool === 'slow' ? { without: busy, among: slow } : { without: [...busy, ...slow] };
    return store.webhooks.claimScan(settings.scanEveryMs, own, among);
  }

  /** Finds what holds in the organization of a webhook, and records it. */
  async function look(webhook: ClaimedLook, work: WorkBudget): Promise<void> {
    const org = webhook.organization_id;
    const wantsTests = webhook.events.includes('policy_test.failing');
    const wantsRules = webhook.events.includes('rule.expiring');
    const wantsTrials = webhook.events.some((event) => trialEvents.has(event));
    const wantsSurges = webhook.events.includes('device.refused_surge');
    const now = clock();
    const [enforcementStatuses, keys, failingTests, expiringRules, trials, surges] = await Promise.all([
      convergence.read(org),
      all(
        (after) => store.enrollmentKeys.list(org, { limit: page, after }),
        ({ id }) => id,
      ),
      wantsTests ? store.policyTests.failing(org) : [],
      wantsRules ? store.groups.expiring(org, { from: now, until: now + ruleWarningMs }) : [],
      wantsTrials ? store.trials.recent(org, now - trialNewsMs) : [],
      wantsSurges ? store.flows.surges(org) : [],
    ]);
    const offlineAfterMs = webhook.offline_after * 1000;
    const about = { keys, failingTests, expiringRules, trials, surges };
    const scene = { now: clock(), enforcementStatuses: [], ...about, offlineAfterMs };
    const conditions = [...conditionsOf(webhook.events, scene)];
    await work.each(enforcementStatuses.devices, (enforcement) => {
      const alone = { ...scene, ...nothingElse, enforcementStatuses: [enforcement] };
      conditions.push(...conditionsOf(webhook.events, alone));
    });
    await store.webhooks.tell(webhook, conditions, (condition) => isNews(condition, webhook));
  }

  /** Begins the next look of the pool; false where none is due, or no place is free. */
  async function beginLook(pool: 'fast' | 'slow'): Promise<boolean> {
    if (looking.size >= mostLooks || lookPool.freePlaces(pool) === 0) return false;
    if (pool === 'slow' && lookPool.slowOrganizations(clock()).length === 0) return false;
    const webhook = await ask(() => claimScan(pool));
    if (webhook === undefined) return false;
    looks.set(webhook.id, clock());
    const organization = webhook.organization_id;
    const work = lookShares.budgetFor({ user: organization, organization });
    const batch: Batch = { organization, size: 1, cut: () => work.end() };
    lookPool.begin(pool, batch);
    const slow = setTimeout(() => lookPool.becomeSlow(batch, clock()), settings.slowMs);
    const looked = look(webhook, work)
      .catch(warn)
      .finally(() => {
        clearTimeout(slow);
        work.end();
        lookPool.end(batch);
        looking.delete(organization);
        lookAgain();
      });
    looking.set(organization, looked);
    return true;
  }

  async function deliver(delivery: ClaimedDelivery, signal: AbortSignal): Promise<void> {
    const { id, url, secret, body, attempt, created_at } = delivery;
    const headers = signedHeaders(secret, { id, body }, Math.floor(clock() / 1000));
    const { lookup } = options;
    const failure = await send({ url, body, headers }, { hosts, timeoutMs: settings.timeoutMs, signal, lookup });
    if (failure === undefined) {
      options.outcomes.inc({ outcome: 'delivered' });
      return store.webhooks.delivered(id);
    }
    // The service stops. The receiver is not at fault.
    if (stopped.signal.aborted) return store.webhooks.failed(id, 'interrupted', 0);
    const tooOld = clock() - Date.parse(created_at) > settings.giveUpAfterMs;
    options.outcomes.inc({ outcome: tooOld ? 'given_up' : 'failed' });
    return store.webhooks.failed(id, failure, tooOld ? undefined : retryAfter(attempt, options.random(), settings));
  }

  const pools = new FairPools(poolSettings);
  const flying = new Set<Promise<void>>();

  /** Sends the deliveries of one organization. An organization gets its next ones when these are over; others do not wait for them. */
  function begin(pool: 'fast' | 'slow', own: readonly [ClaimedDelivery, ...ClaimedDelivery[]]): void {
    const cut = new AbortController();
    const signal = AbortSignal.any([stopped.signal, cut.signal]);
    const batch: Batch = { organization: own[0].organization_id, size: own.length, cut: () => cut.abort() };
    pools.begin(pool, batch);
    const slow = setTimeout(() => pools.becomeSlow(batch, clock()), settings.slowMs);
    const work = Promise.allSettled(own.map((delivery) => deliver(delivery, signal))).then((outcomes) => {
      clearTimeout(slow);
      pools.end(batch);
      flying.delete(work);
      deliverMore();
      const failed = outcomes.find(({ status }) => status === 'rejected');
      if (failed !== undefined) warn((failed as PromiseRejectedResult).reason);
    });
    flying.add(work);
  }

  /** Begins what is due in the pool. */
  async function fill(pool: 'fast' | 'slow'): Promise<void> {
    const [limit, perOrganization] = [pools.freePlaces(pool), mostOfOrganization[pool]];
    const [slow, busy] = [pools.slowOrganizations(clock()), pools.busyOrganizations()];
    if (limit === 0 || (pool === 'slow' && slow.length === 0)) return;
    const among = pool === 'slow' ? { without: busy, among: slow } : { without: [...busy, ...slow] };
    const claimed = await store.webhooks.claimDeliveries({ limit, perOrganization, ...among }, settings.leaseMs);
    for (const org of new Set(claimed.map(({ organization_id }) => organization_id))) {
      const [first, ...more] = claimed.filter(({ organization_id }) => organization_id === org);
      if (first !== undefined) begin(pool, [first, ...more]);
    }
  }

  // What has ended frees its place for the next one; meanwhile, new ones are looked for.
  const lookAgain = options.start({
    task: 'look for what webhooks tell',
    async run(stopping) {
      if (!gracePeriod.isOver(clock())) await ask(() => store.ping());
      else while (!stopping.aborted && ((await beginLook('fast')) || (await beginLook('slow'))));
      return settings.workEveryMs;
    },
    settle: () => Promise.all(looking.values()),
  });
  const deliverMore = options.start({
    task: 'deliver webhooks',
    async run() {
      await fill('fast');
      await fill('slow');
      return settings.workEveryMs;
    },
    async settle() {
      stopped.abort();
      await Promise.all(flying);
    },
  });
}
