/** Owns the answers about enforcement: the states of organizations while requests use them, and the requests that wait. */
import { inForceWords, type InForce } from '../../api/enforcement/in-force.ts';
import type { DeviceId, OrganizationId } from '../../policy/ids.ts';
import { Coalescer } from '../scheduling/coalescer.ts';
import { StoreError } from '../problems.ts';
import type { DevicePresence } from '../store/devices/presence.ts';
import type { Store } from '../store/open.ts';
import type { TimeSlices } from '../scheduling/time-slices.ts';
import type { Converged, Convergence, ConvergenceQuery, EnforcementStatuses, Survey } from './contract.ts';
import { DigestThread } from './digest-thread.ts';
import { EnforcedRevisions } from './enforced-revisions.ts';
import { OrganizationState } from './organization-state.ts';
import { OrganizationWaits } from './waits.ts';

export interface ConvergenceOptions {
  readonly store: Pick<Store, 'log' | 'models' | 'receipts' | 'groups' | 'trials' | 'presence'>;
  readonly receipts: ReceiptRequester;
  /** Milliseconds that only ever go forward. */
  readonly monotonic: () => number;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly slices: TimeSlices;
}

/** Asks devices for receipts, and knows when they report. */
export interface ReceiptRequester {
  ask(org: OrganizationId, revision: number, devices?: readonly DeviceId[]): void;
  /** Returns what ends it. */
  onReported(listener: (org: OrganizationId) => void): () => void;
}

export interface ConvergenceService extends Convergence {
  /** Ends all waits, for a server that stops. */
  close(): void;
}

/** An organization's state is dropped when it was not used for this long. */
const lingerMs = 60_000;

interface TrackedOrganization {
  readonly state: OrganizationState;
  readonly enforced: EnforcedRevisions;
  readonly waits: OrganizationWaits;
  /** By revision: concurrent requests share one answer. */
  readonly answers: Coalescer<number, Converged>;
  readonly enforcementStatuses: Coalescer<'head', EnforcementStatuses>;
  usedAt: number;
  /** Questions that are not answered yet. */
  asking: number;
}

function onlyOf({ revision, devices, pending }: Converged, among: ReadonlySet<DeviceId> | undefined): Converged {
  if (among === undefined) return { revision, devices, pending };
  return { revision, devices: among.size, pending: pending.filter(({ device_id }) => among.has(device_id)) };
}

export function startConvergence({ store, receipts, monotonic, now, slices }: ConvergenceOptions): ConvergenceService {
  const organizations = new Map<OrganizationId, TrackedOrganization>();
  const presence = new Coalescer<OrganizationId, ReadonlyMap<DeviceId, DevicePresence>>({
    read: (orgs) => orgs.map((org) => store.presence.read(org)),
  });
  const digester = new DigestThread(slices);
  const options = { store, slices, monotonic, now, digester };
  let closed = false;

  const wake = (org: OrganizationId): void => organizations.get(org)?.waits.wake();
  const stopListening = [
    store.log.onHint(({ organizations: changed }) => changed.forEach((org) => wake(org))),
    receipts.onReported(wake),
  ];
  const forgetting = setInterval(() => {
    for (const [org, kept] of organizations) {
      if (kept.asking === 0 && monotonic() - kept.usedAt > lingerMs) organizations.delete(org);
    }
  }, lingerMs).unref();

  async function enforcementStatusesOf(state: OrganizationState): Promise<EnforcementStatuses> {
    await state.refresh();
    const revision = state.head;
    const presences = await presence.immediate.get(state.org);
    return { revision, devices: await state.enforcementStatuses(revision, state.policies.ids, presences) };
  }

  /** The devices that have the revision are known. Only for the others this computes the state and the presence. */
  async function convergedOf({ state, enforced }: TrackedOrganization, revision: number): Promise<Converged> {
    const upTo = await enforced.look();
    const ids = state.policies.ids.filter((id) => (upTo.get(id) ?? -1) < revision);
    const have = state.policies.ids.length - ids.length;
    const presences = ids.length === 0 ? new Map() : await presence.immediate.get(state.org);
    const enforcementStatuses = await state.enforcementStatuses(revision, ids, presences);
    const pending = enforcementStatuses.filter(({ in_force }) => in_force !== 'yes');
    return { revision, devices: have + enforcementStatuses.length, pending };
  }

  /** The devices whose policy changed after one revision, up to another. */
  async function changedBetween(
    { state: { policies } }: TrackedOrganization,
    since: number,
    upTo: number,
  ): Promise<ReadonlySet<DeviceId>> {
    const changed = new Set<DeviceId>();
    await slices.each(policies.ids, (id) => {
      if (policies.hasChanged(id, since, upTo)) changed.add(id);
    });
    return changed;
  }

  async function converge(
    kept: TrackedOrganization,
    { revision, since, waitMs = 0, signal }: ConvergenceQuery,
  ): Promise<Converged | undefined> {
    const until = monotonic() + waitMs;
    await kept.state.refresh();
    const asked = revision ?? kept.state.head;
    if (asked > kept.state.head) return undefined;
    const among = since === undefined ? undefined : await changedBetween(kept, since, asked);
    for (;;) {
      while (monotonic() < until && !(await kept.waits.isInForce(asked, among))) {
        if (closed) throw new StoreError({ code: 'unavailable' });
        await kept.waits.wait(asked, { until, signal, among });
      }
      const converged = onlyOf(await kept.answers.immediate.get(asked), among);
      if (monotonic() >= until || converged.pending.length === 0) return converged;
    }
  }

  function keep(org: OrganizationId): TrackedOrganization {
    const state = new OrganizationState(org, options);
    const enforced = new EnforcedRevisions({ state, slices, presence: () => presence.immediate.get(org) });
    const waits = new OrganizationWaits({
      refresh: () => state.refresh(),
      enforced,
      monotonic,
      ask: (revision, devices) => receipts.ask(org, revision, devices),
    });
    const answers = new Coalescer<number, Converged>({
      read: (revisions) => revisions.map((revision) => convergedOf(kept, revision)),
    });
    const enforcementStatuses = new Coalescer<'head', EnforcementStatuses>({
      read: (heads) => heads.map(() => enforcementStatusesOf(state)),
    });
    const kept: TrackedOrganization = { state, enforced, waits, answers, enforcementStatuses, usedAt: 0, asking: 0 };
    organizations.set(org, kept);
    return kept;
  }

  async function survey({ state }: TrackedOrganization): Promise<Survey> {
    await state.refresh();
    const { policies } = state;
    const { head, devices } = policies;
    return {
      revision: head,
      devices,
      groupsOn: (id) => {
        const device = devices.get(id);
        return device && policies.groupsOn(device);
      },
      isolationOn: (id) => {
        const device = devices.get(id);
        return device && policies.isolationOn(device);
      },
      enforcementStatuses: async (ids) => {
        const presences = await presence.immediate.get(state.org);
        return state.enforcementStatuses(head, ids, presences);
      },
    };
  }

  const using = async <T>(org: OrganizationId, work: (kept: TrackedOrganization) => Promise<T>): Promise<T> => {
    const kept = organizations.get(org) ?? keep(org);
    kept.asking += 1;
    try {
      return await work(kept);
    } finally {
      kept.asking -= 1;
      kept.usedAt = monotonic();
    }
  };

  return {
    read: (org) => using(org, (kept) => kept.enforcementStatuses.immediate.get('head')),
    converge: (org, query = {}) => using(org, (kept) => converge(kept, query)),
    survey: (org) => using(org, survey),

    async count(org) {
      const state = organizations.get(org)?.state ?? new OrganizationState(org, options);
      await state.refresh();
      const counts = Object.fromEntries(inForceWords.map((word) => [word, 0])) as Record<InForce, number>;
      const presences = await presence.immediate.get(org);
      await state.judge(state.head, state.policies.ids, presences, ({ in_force }) => (counts[in_force] += 1));
      return counts;
    },

    close() {
      closed = true;
      for (const stop of stopListening) stop();
      clearInterval(forgetting);
      digester.close();
      for (const { waits } of organizations.values()) waits.close();
    },
  };
}
