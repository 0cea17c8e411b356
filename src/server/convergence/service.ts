/** Owns the answers about enforcement: states of organizations while somebody asks, and those who wait for one. */
import type { DeviceId, OrganizationId } from '../../policy/ids.ts';
import { Coalescer } from '../coalesce.ts';
import { StoreError } from '../store/contract/errors.ts';
import type { Hint } from '../store/contract/change-log.ts';
import type { Seen } from '../store/contract/presence.ts';
import type { Store } from '../store/contract/store.ts';
import type { Convergence, Standings } from './contract.ts';
import { OrganizationState } from './organization-state.ts';
import { PendingDevices } from './pending-devices.ts';

export interface ConvergenceOptions {
  readonly store: Pick<Store, 'log' | 'receipts' | 'groups' | 'presence'>;
  /** Milliseconds that only ever go forward. */
  readonly monotonic: () => number;
  /** Lets other work go first. */
  readonly pause: () => Promise<void>;
}

export interface ConvergenceService extends Convergence {
  /** Nobody waits any longer; for a server that stops. */
  close(): void;
}

/** Receipts that come so close together are taken in at once. */
const gatherMs = 25;
/** So often a waiter looks without having been woken: a hint may be lost. */
const lookMs = 1_000;
/** So often devices are asked again: one that came back meanwhile has not heard. */
const askMs = 3_000;
/** Up to so many devices are asked by name; beyond, all of the organization. */
const mostNamed = 400;
/** The state of an organization that nobody asks about is let go after this long. */
const lingerMs = 60_000;

interface Kept {
  readonly state: OrganizationState;
  usedAt: number;
  waiters: number;
}

export function startConvergence({ store, monotonic, pause }: ConvergenceOptions): ConvergenceService {
  const organizations = new Map<OrganizationId, Kept>();
  const wakers = new Map<OrganizationId, Set<() => void>>();
  const presence = new Coalescer<OrganizationId, ReadonlyMap<DeviceId, Seen>>({
    read: (orgs) => orgs.map((org) => store.presence.read(org)),
  });
  let closed = false;

  const wake = (org: OrganizationId): void => {
    for (const waker of wakers.get(org) ?? []) waker();
  };
  const stopHints = store.log.onHint(({ receipts, organizations: changed }: Hint) => {
    for (const org of new Set([...receipts, ...changed])) wake(org);
  });
  const forgetting = setInterval(() => {
    for (const [org, kept] of organizations) {
      if (kept.waiters === 0 && monotonic() - kept.usedAt > lingerMs) organizations.delete(org);
    }
  }, lingerMs).unref();

  /** Until something may have changed, or the time is over. */
  const changed = (org: OrganizationId, ms: number): Promise<void> =>
    new Promise((resolve) => {
      const waiting = wakers.get(org) ?? new Set();
      wakers.set(org, waiting);
      const done = (): void => {
        clearTimeout(timer);
        waiting.delete(done);
        if (waiting.size === 0 && wakers.get(org) === waiting) wakers.delete(org);
        resolve();
      };
      const timer = setTimeout(done, ms);
      waiting.add(done);
    });

  /** Waits until every device has the revision, or until then. */
  async function waitFor({ state }: Kept, revision: number, until: number): Promise<void> {
    const readPresence = (): Promise<ReadonlyMap<DeviceId, Seen>> => presence.prompt.get(state.org);
    const devices = new PendingDevices({ state, revision, readPresence });
    let askedAt = Number.NEGATIVE_INFINITY;
    for (;;) {
      const now = monotonic();
      const isDue = now - askedAt >= askMs;
      const pending = await devices.look(isDue);
      if (pending.size === 0 || now >= until) return;
      if (isDue) {
        askedAt = now;
        store.receipts.ask(state.org, { revision, devices: pending.size <= mostNamed ? [...pending] : undefined });
      }
      await changed(state.org, Math.min(lookMs, until - now));
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, Math.min(gatherMs, until - monotonic()))));
      if (closed) throw new StoreError({ code: 'unavailable' });
      await state.refresh();
    }
  }

  async function read(kept: Kept, revision: number | undefined, waitMs: number): Promise<Standings | undefined> {
    const { state } = kept;
    const until = monotonic() + waitMs;
    await state.refresh();
    const asked = revision ?? state.head;
    if (asked > state.head) return undefined;
    if (waitMs > 0) await waitFor(kept, asked, until);
    const seen = await presence.prompt.get(state.org);
    const standings = await state.standings(asked, state.devices.values(), seen);
    return { revision: asked, devices: standings.toSorted((a, b) => (a.device_id < b.device_id ? -1 : 1)) };
  }

  return {
    async read(org, { revision, waitMs = 0 } = {}) {
      const kept = organizations.get(org) ?? { state: new OrganizationState(org, store, pause), usedAt: 0, waiters: 0 };
      organizations.set(org, kept);
      kept.waiters += 1;
      try {
        return await read(kept, revision, waitMs);
      } finally {
        kept.waiters -= 1;
        kept.usedAt = monotonic();
      }
    },

    close() {
      closed = true;
      stopHints();
      clearInterval(forgetting);
      for (const org of wakers.keys()) wake(org);
    },
  };
}
