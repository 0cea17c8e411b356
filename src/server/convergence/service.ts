/** Owns the answers about enforcement: states of organizations while somebody asks, and those who wait for one. */
import { inForceWords, type InForce } from '../../api/enforcement/in-force.ts';
import type { DeviceId, OrganizationId } from '../../policy/ids.ts';
import { Coalescer } from '../coalesce.ts';
import { StoreError } from '../store/contract/errors.ts';
import type { Hint } from '../store/contract/change-log.ts';
import type { Seen } from '../store/contract/presence.ts';
import type { Store } from '../store/contract/store.ts';
import type { TimeSlices } from '../time-slices.ts';
import type { Convergence, Standings, StandingsQuery, Survey } from './contract.ts';
import { DigestThread } from './digest-thread.ts';
import { EnforcedRevisions } from './enforced-revisions.ts';
import { OrganizationState } from './organization-state.ts';
import { OrganizationWaits } from './waits.ts';

export interface ConvergenceOptions {
  readonly store: Pick<Store, 'log' | 'receipts' | 'groups' | 'presence'>;
  /** Milliseconds that only ever go forward. */
  readonly monotonic: () => number;
  readonly slices: TimeSlices;
}

export interface ConvergenceService extends Convergence {
  /** Nobody waits any longer; for a server that stops. */
  close(): void;
}

/** The state of an organization that nobody asks about is let go after this long. */
const lingerMs = 60_000;

interface Kept {
  readonly state: OrganizationState;
  readonly waits: OrganizationWaits;
  /** By revision: what those who ask together are told is worked out once. */
  readonly answers: Coalescer<number, Standings>;
  usedAt: number;
  /** Questions that are not answered yet. */
  asking: number;
}

const inForceEverywhere = ({ devices }: Standings): boolean => devices.every(({ in_force }) => in_force === 'yes');

export function startConvergence({ store, monotonic, slices }: ConvergenceOptions): ConvergenceService {
  const organizations = new Map<OrganizationId, Kept>();
  const presence = new Coalescer<OrganizationId, ReadonlyMap<DeviceId, Seen>>({
    read: (orgs) => orgs.map((org) => store.presence.read(org)),
  });
  const digester = new DigestThread(slices);
  const options = { store, slices, monotonic, digester };
  let closed = false;

  const stopHints = store.log.onHint(({ receipts, organizations: changed }: Hint) => {
    for (const org of new Set([...receipts, ...changed])) organizations.get(org)?.waits.wake();
  });
  const forgetting = setInterval(() => {
    for (const [org, kept] of organizations) {
      if (kept.asking === 0 && monotonic() - kept.usedAt > lingerMs) organizations.delete(org);
    }
  }, lingerMs).unref();

  async function standingsOf(state: OrganizationState, revision: number): Promise<Standings> {
    const seen = await presence.prompt.get(state.org);
    return { revision, devices: await state.standings(revision, state.model.ids, seen) };
  }

  async function read(kept: Kept, { revision, waitMs = 0, signal }: StandingsQuery): Promise<Standings | undefined> {
    const until = monotonic() + waitMs;
    await kept.state.refresh();
    const asked = revision ?? kept.state.head;
    if (asked > kept.state.head) return undefined;
    for (;;) {
      // How each device stands is worked out for the answer alone: it takes far longer than to see that one of them lacks something.
      while (monotonic() < until && !(await kept.waits.isInForce(asked))) {
        if (closed) throw new StoreError({ code: 'unavailable' });
        await kept.waits.wait(asked, { until, signal });
      }
      const standings = await kept.answers.prompt.get(asked);
      if (monotonic() >= until || inForceEverywhere(standings)) return standings;
    }
  }

  function keep(org: OrganizationId): Kept {
    const state = new OrganizationState(org, options);
    const waits = new OrganizationWaits({
      refresh: () => state.refresh(),
      enforced: new EnforcedRevisions({ state, slices }),
      monotonic,
      ask: (awaited) => store.receipts.ask(org, awaited),
    });
    const answers = new Coalescer<number, Standings>({
      read: (revisions) => revisions.map((revision) => standingsOf(state, revision)),
    });
    const kept = { state, waits, answers, usedAt: 0, asking: 0 };
    organizations.set(org, kept);
    return kept;
  }

  async function survey({ state }: Kept): Promise<Survey> {
    await state.refresh();
    const { model } = state;
    const { head, devices } = model;
    return {
      revision: head,
      devices,
      groupsOn: (id) => {
        const device = devices.get(id);
        return device && model.effectOn(device);
      },
      standings: async (ids) => {
        const seen = await presence.prompt.get(state.org);
        return state.standings(head, ids, seen);
      },
    };
  }

  const using = async <T>(org: OrganizationId, work: (kept: Kept) => Promise<T>): Promise<T> => {
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
    read: (org, query = {}) => using(org, (kept) => read(kept, query)),
    survey: (org) => using(org, survey),

    async count(org) {
      const state = organizations.get(org)?.state ?? new OrganizationState(org, options);
      await state.refresh();
      const counts = Object.fromEntries(inForceWords.map((word) => [word, 0])) as Record<InForce, number>;
      const seen = await presence.prompt.get(org);
      await state.judge(state.head, state.model.ids, seen, ({ in_force }) => (counts[in_force] += 1));
      return counts;
    },

    close() {
      closed = true;
      stopHints();
      clearInterval(forgetting);
      digester.close();
      for (const { waits } of organizations.values()) waits.close();
    },
  };
}
